"""What an instance takes from anybody, before it is asked who they are."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest

from headrace.serving.rest import protocol
from tests.serving.conftest import Fixed
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
