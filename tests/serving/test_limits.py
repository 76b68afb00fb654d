"""What an instance takes from anybody, before it is asked who they are."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest

from headrace.serving.config import ServingConfig
from headrace.serving.rest import protocol, sending
from tests.serving.conftest import Fixed, MakeStage
from tests.serving.stage import Running, wait_until

PATIENCE = 30.0


def connect(running: Running) -> socket.socket:
    host, _, port = running.address.partition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def answer_to(connection: socket.socket) -> bytes:
    """All that is answered until the connection is closed."""
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    return received


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times as short as a test may be."""
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.5)
    monkeypatch.setattr(protocol, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(protocol, "WRITE_SECONDS", 0.5)
    yield


@pytest.mark.parametrize(
    "headers",
    [b"X: " + b"x" * 300_000, b"\r\n".join(b"X-%d: %s" % (number, b"x" * 1000) for number in range(300))],
    ids=["one", "many"],
)
def test_long_headers_are_refused(app: Fixed, headers: bytes) -> None:
    with connect(app.any) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(b"GET /v1/stores HTTP/1.1\r\nHost: 127.0.0.1\r\n" + headers)
        assert not (answered := answer_to(connection)) or answered.startswith(b"HTTP/1.1 431 ")


def test_headers_that_come_at_once_may_not_be_longer_either(app: Fixed) -> None:
    with connect(app.any) as connection:
        connection.sendall(b"GET /v1/stores HTTP/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n")
        assert answer_to(connection).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /v1/stores HT",
        b"GET /v1/stores HTTP/1.1\r\nX: y\r\n",
        b"POST /x HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc",
    ],
    ids=["nothing", "line", "headers", "body"],
)
def test_half_a_request_is_not_waited_for(app: Fixed, hurry: None, sent: bytes) -> None:
    with connect(app.any) as connection:
        began = time.monotonic()
        connection.sendall(sent)
        answered = answer_to(connection)
        assert time.monotonic() - began < PATIENCE / 2
        assert answered.startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 404 ", b"HTTP/1.1 405 "))


def test_headers_byte_by_byte_are_not_waited_for(app: Fixed, hurry: None) -> None:
    with connect(app.any) as connection:
        connection.sendall(b"GET /v1/stores HTTP/1.1\r\nX: ")
        began = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() < began + PATIENCE:
                connection.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() - began < PATIENCE / 2


def test_many_requests_over_one_connection_take_as_long_as_they_like(app: Fixed, hurry: None) -> None:
    with httpx.Client(base_url=app.any.url) as client:
        began = time.monotonic()
        while time.monotonic() < began + 1.5:
            assert client.get("/v1/stores").status_code == 200


def test_connections_are_kept_for_peers_and_health(app: Fixed, monkeypatch: pytest.MonkeyPatch) -> None:
    running = app.any
    assert running.server._server is not None
    connections = running.server._server.server_state.connections
    before = len(connections)
    monkeypatch.setattr(protocol, "MOST_CONNECTIONS", before + 10)
    monkeypatch.setattr(protocol, "KEPT_CONNECTIONS", 5)
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(connect(running))
        wait_until(lambda: len(connections) >= before + 5, "connections that say nothing")
        with httpx.Client(base_url=running.url) as client:
            assert client.get("/v1/stores").status_code == 503
        with httpx.Client(base_url=running.url) as client:
            assert client.get("/healthz").status_code == 200
        for _ in range(5):
            stack.enter_context(connect(running))
        wait_until(lambda: len(connections) >= before + 10, "as many connections as there may be")
        with connect(running) as connection:
            assert answer_to(connection) == b""
    wait_until(lambda: len(connections) <= before, "connections that are closed")
    assert httpx.get(f"{running.url}/v1/stores").status_code == 200


@pytest.fixture
def large(counting: MakeStage) -> Running:
    """An instance whose pages have ten megabytes, more than sockets hold; it sends no more than two at once."""
    stage = counting(partitions=1)
    keys = (f"{number:04}{'x' * 100_000}".encode() for number in range(100))
    stage.write("n", 0, [(key, (1).to_bytes(8, "big"), 1) for key in keys])
    running = stage.start(ServingConfig(max_sending_bytes=25_000_000))
    stage.settle([running])
    return running


def ask_for_a_page(running: Running) -> socket.socket:
    """A client that asks for a large page, and does not read it."""
    host, _, port = running.address.partition(":")
    connection = socket.socket()
    connection.settimeout(PATIENCE)
    # Before it is connected: the kernel would take all of the page otherwise.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((host, int(port)))
    connection.sendall(b"GET /v1/stores/n/keys?limit=1000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    return connection


def test_large_answers_that_nobody_reads_have_a_limit_together(large: Running, http: httpx.Client) -> None:
    url = f"{large.url}/v1/stores/n/keys?limit=1000"
    assert len(http.get(url).content) > 10_000_000
    with ExitStack() as stack:
        slow = [stack.enter_context(ask_for_a_page(large)) for _ in range(2)]
        for each in slow:
            assert each.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200", "it is being answered"
        refused = http.get(url)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["title"] == "Too many large answers at once"
        assert http.get(f"{large.url}/v1/stores/n/keys?limit=1").status_code == 200
        # Who reads in the end gets all of it.
        head, _, body = read_answer(slow[0]).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ") and len(json.loads(body)["entries"]) == 100
        wait_until(lambda: http.get(url).status_code == 200, "room for another one")


def read_answer(connection: socket.socket) -> bytes:
    """An answer that says how long it is."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head = received.partition(b"\r\n\r\n")[0].lower()
    length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(received) < len(head) + 4 + length:
        received += connection.recv(65536)
    return received


def test_who_reads_too_slowly_is_disconnected(large: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(sending, "LEAST_BYTES_A_SECOND", 20_000_000)
    with ask_for_a_page(large) as connection:
        wait_until(lambda: large.requests == 1, "the request")
        wait_until(lambda: large.requests == 0, "its end")
        received = answer_to(connection)
        assert received.startswith(b"HTTP/1.1 200 ") and len(received) < 10_000_000
