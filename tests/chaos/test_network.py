"""The proxy between the application and the brokers does what it is told, in one direction."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from headrace.kafka.home import HOST
from tests.chaos.network import CUT, DELAYED, END_TXN, HALF_CLOSED, SILENT, TO_BROKER, TO_CLIENT, Network, Trouble

PRODUCE = 0
SECONDS = 10.0


class Broker:
    """Answers each request with its correlation id, and keeps what it got."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.requests: list[bytes] = []
        self.ended = threading.Semaphore(0)
        """Released when a connection has ended."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        if self._listener.fileno() >= 0:
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes up who accepts
            self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            while (frame := receive(connection)) is not None:
                self.requests.append(frame)
                connection.sendall(struct.pack(">i", 8) + frame[4:8] + b"done")
        except OSError:
            pass
        finally:
            connection.close()
            self.ended.release()


def send(client: socket.socket, correlation_id: int, api_key: int = PRODUCE) -> None:
    request = struct.pack(">hhi", api_key, 3, correlation_id) + b"content"
    client.sendall(struct.pack(">i", len(request)) + request)


def receive(connection: socket.socket) -> bytes | None:
    """A frame without its length, None at the end."""
    length = _receive_bytes(connection, 4)
    return None if length is None else _receive_bytes(connection, int.from_bytes(length, "big"))


def _receive_bytes(connection: socket.socket, count: int) -> bytes | None:
    found = b""
    while len(found) < count:
        if not (more := connection.recv(count - len(found))):
            return None
        found += more
    return found


def answer(correlation_id: int) -> bytes:
    return struct.pack(">i", correlation_id) + b"done"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with closing(Broker()) as broker:
        yield broker


@pytest.fixture
def network(broker: Broker) -> Iterator[Network]:
    with Network([broker.port]) as network:
        yield network


@pytest.fixture
def client(network: Network) -> Iterator[socket.socket]:
    with connect(network) as client:
        send(client, 1)
        assert receive(client) == answer(1)
        yield client


def connect(network: Network) -> socket.socket:
    return socket.create_connection((HOST, network.ports[0]), SECONDS)


def test_a_good_network_passes_everything_on(client: socket.socket) -> None:
    for number in range(100):
        send(client, number, END_TXN)
    assert [receive(client) for _ in range(100)] == [answer(number) for number in range(100)]


@pytest.mark.parametrize("direction", [TO_BROKER, TO_CLIENT])
def test_what_is_delayed_arrives(network: Network, client: socket.socket, direction: str) -> None:
    network.disturb(Trouble(DELAYED, direction, 0.01))
    send(client, 2)
    assert receive(client) == answer(2)
    network.await_hit()


@pytest.mark.parametrize(("direction", "arrived"), [(TO_BROKER, 1), (TO_CLIENT, 2)])
def test_silence_holds_up_one_direction_until_the_network_heals(
    network: Network, broker: Broker, client: socket.socket, direction: str, arrived: int
) -> None:
    network.disturb(Trouble(SILENT, direction))
    send(client, 2)
    network.await_hit()
    assert len(broker.requests) == arrived
    network.heal()
    assert receive(client) == answer(2)


def test_what_was_held_up_may_be_lost(network: Network, broker: Broker, client: socket.socket) -> None:
    network.disturb(Trouble(SILENT, TO_BROKER, arrives=False))
    send(client, 2)
    network.await_hit()
    network.heal()
    with pytest.raises(ConnectionResetError):
        receive(client)
    assert len(broker.requests) == 1


def test_a_cut_towards_the_client_resets_it(network: Network, broker: Broker, client: socket.socket) -> None:
    network.disturb(Trouble(CUT, TO_CLIENT))
    send(client, 2)
    with pytest.raises(ConnectionResetError):
        while receive(client) is not None:
            pass
    assert len(broker.requests) == 2


def test_a_cut_towards_the_broker_leaves_the_client_in_the_dark(
    network: Network, broker: Broker, client: socket.socket
) -> None:
    network.disturb(Trouble(CUT, TO_BROKER))
    send(client, 2)
    assert broker.ended.acquire(timeout=SECONDS)
    assert len(broker.requests) == 1
    client.settimeout(0.1)
    with pytest.raises(TimeoutError):
        receive(client)
    client.settimeout(SECONDS)
    network.heal()
    with pytest.raises(ConnectionResetError):
        receive(client)


def test_half_closed_towards_the_client_the_broker_still_gets_requests(
    network: Network, broker: Broker, client: socket.socket
) -> None:
    network.disturb(Trouble(HALF_CLOSED, TO_CLIENT))
    send(client, 2)
    assert receive(client) is None
    send(client, 3)
    client.shutdown(socket.SHUT_WR)
    assert broker.ended.acquire(timeout=SECONDS)
    assert len(broker.requests) == 3


def test_half_closed_towards_the_broker_it_ends(network: Network, broker: Broker, client: socket.socket) -> None:
    network.disturb(Trouble(HALF_CLOSED, TO_BROKER))
    send(client, 2)
    assert broker.ended.acquire(timeout=SECONDS)
    assert receive(client) is None
    assert len(broker.requests) == 1


def test_the_answer_to_the_end_of_a_transaction_is_lost(
    network: Network, broker: Broker, client: socket.socket
) -> None:
    network.lose_answers(1)
    send(client, 2)
    assert receive(client) == answer(2)
    send(client, 3, END_TXN)
    with pytest.raises(ConnectionResetError):
        receive(client)
    network.await_hit()
    assert len(broker.requests) == 3
    with connect(network) as again:
        send(again, 1, END_TXN)
        assert receive(again) == answer(1)


def test_nobody_answers_for_a_broker_that_is_away(network: Network, broker: Broker) -> None:
    broker.close()
    with pytest.raises(ConnectionResetError), connect(network) as client:
        send(client, 1)
        receive(client)
