"""Requests that no client should send: each is refused or dropped, none is a server error, and none leaves memory."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable

import pytest

from tests.serving.served import Served
from tests.serving.stage import Stage

pytestmark = pytest.mark.acceptance

REQUESTS = 2_000
WARM_UP = 500
GROWTH_MB = 10.0
ANSWER_SECONDS = 10.0
PATHS = (
    "/",
    "/healthz",
    "/readyz",
    "/openapi.json",
    "/v1/config",
    "/v1/instances",
    "/v1/topology",
    "/v1/stores",
    "/v1/stores/n",
    "/v1/stores/n/keys",
    "/v1/stores/n/keys/a",
    "/v1/stores/n/changes",
    "/v1/stores/n/windows/a",
    "/internal/v1/query",
    "/internal/v1/shutdown",
)
NAMES = (
    "limit",
    "from",
    "to",
    "prefix",
    "cursor",
    "min_position",
    "max_staleness_ms",
    "timeout_ms",
    "allow_stale",
    "x",
)
VALUES = (
    "",
    "-1",
    "0",
    "1e999",
    "9" * 40,
    "NaN",
    "true",
    "null",
    "0:1",
    "0:",
    ":",
    ",",
    "a",
    "%00",
    "%ff%fe",
    "%",
    "{}",
)
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "get", "", "G E T", "\x00")
HEADERS = (
    "Content-Length: -1",
    "Content-Length: 99999999999999999999",
    "Content-Length: 5\r\nContent-Length: 6",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked\r\nContent-Length: 3",
    "Content-Type: application/json",
    "Content-Type: \xff\xfe",
    "Expect: 100-continue",
    "Connection: Upgrade\r\nUpgrade: websocket",
    "Accept: " + "*/*," * 500,
    "Authorization: Bearer " + "x" * 5000,
    "Last-Event-ID: \x01",
    "X-Headrace-Signature: x\r\nX-Headrace-Time: -9e99\r\nX-Headrace-Nonce: ",
    " folded: header",
    "no colon",
    ": no name",
)
BODIES = (b"", b"{", b"[" * 5_000, b'{"keys": [1, null, {}]}', b"\xff" * 1_000, b'{"keys": "' + b"a" * 20_000 + b'"}')


def test_malformed_requests_are_refused_and_forgotten(served: tuple[Served, Stage]) -> None:
    instance, _ = served
    seed = random.SystemRandom().randrange(1_000_000)
    chance = random.Random(seed)
    statuses: dict[str, int] = {}
    warm = 0.0
    for number in range(WARM_UP + REQUESTS):
        if number == WARM_UP:
            warm = instance.megabytes
        request = _request(chance)
        status = _status(instance, request)
        assert not status.startswith("5"), f"seed {seed}, request {number}: {status} for {request[:2000]!r}"
        statuses[status] = statuses.get(status, 0) + 1
    grown = instance.megabytes - warm
    print(f"seed {seed}: {dict(sorted(statuses.items()))}; {warm:.0f} MB, and {grown:.1f} more in the end")
    assert grown < GROWTH_MB
    assert _status(instance, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n") == "200"


def _request(chance: random.Random) -> bytes:
    """A request in which some things are wrong."""
    path = chance.choice(PATHS)
    if chance.random() < 0.5:
        query = (f"{chance.choice(NAMES)}={chance.choice(VALUES)}" for _ in range(chance.randrange(1, 6)))
        path += "?" + "&".join(query)
    method = chance.choice(METHODS) if chance.random() < 0.5 else "GET"
    version = (
        chance.choice(("HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/9.9", "HTTP/2.0", ""))
        if chance.random() < 0.4
        else "HTTP/1.1"
    )
    headers = [*chance.sample(HEADERS, chance.randrange(3)), "Connection: close"]
    if chance.random() < 0.9:
        headers.insert(0, "Host: 127.0.0.1")
    request = f"{method} {path} {version}\r\n{_lines(headers)}\r\n".encode("latin-1") + chance.choice(BODIES)
    mutations: tuple[Callable[[bytes], bytes], ...] = (
        lambda given: given,
        lambda given: given[: chance.randrange(len(given) + 1)],
        lambda given: _with_random_bytes(given, chance),
        lambda given: given.replace(b"\r\n", b"\n"),
        lambda given: given * 3,
    )
    return chance.choice(mutations)(request)


def _lines(headers: list[str]) -> str:
    return "".join(f"{header}\r\n" for header in headers)


def _with_random_bytes(given: bytes, chance: random.Random) -> bytes:
    changed = bytearray(given)
    for _ in range(chance.randrange(1, 8)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _status(instance: Served, request: bytes) -> str:
    """The status of the answer; `none` where the connection ends without one, `waits` where more is waited for."""
    host, _, port = instance.address.partition(":")
    with socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS) as connection:
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(64)
        except TimeoutError:
            return "waits"
        except OSError:
            return "none"
    return answer.split(b" ", 2)[1].decode("latin-1") if answer.startswith(b"HTTP/") else "none"
