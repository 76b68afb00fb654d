"""Asks an instance over connections that are kept, each with one request at a time, as fast as it answers."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.percentiles import percentile

_SECONDS = 120.0
"""No round of questions takes longer."""
_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


@dataclass(frozen=True)
class Question:
    """A path, and what the answer has in it."""

    path: str
    expected: bytes


@dataclass(frozen=True)
class Answered:
    """How long all questions took, and how long each of them."""

    seconds: float
    latencies: list[float]

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.latencies) / self.seconds

    @property
    def median_ms(self) -> float:
        """What half of the answers took at most."""
        return statistics.median(self.latencies) * 1000

    @property
    def p99_ms(self) -> float:
        """What 99 of 100 answers took at most."""
        return percentile(self.latencies, 0.99) * 1000


def ask(address: str, questions: Sequence[Question], connections: int) -> Answered:
    """Asks each question once; RuntimeError for an answer that is not the right one."""
    return asyncio.run(asyncio.wait_for(_ask(address, questions, connections), _SECONDS))


async def _ask(address: str, questions: Sequence[Question], connections: int) -> Answered:
    host, _, port = address.rpartition(":")
    left = iter([(_request(address, question), question.expected) for question in questions])
    latencies: list[float] = []
    loop = asyncio.get_running_loop()
    opened = [
        await loop.create_connection(lambda: _Connection(left, latencies), host, int(port)) for _ in range(connections)
    ]
    started = time.perf_counter()
    for _, connection in opened:
        connection.go_on()
    await asyncio.gather(*(connection.over for _, connection in opened))
    seconds = time.perf_counter() - started
    for transport, _ in opened:
        transport.close()
    return Answered(seconds, latencies)


def _request(address: str, question: Question) -> bytes:
    return f"GET {question.path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()


class _Connection(asyncio.Protocol):
    """Takes the next question whenever one is answered. A client library would be busier than the instance."""

    def __init__(self, left: Iterator[tuple[bytes, bytes]], latencies: list[float]) -> None:
        self._left = left
        self._latencies = latencies
        self._received = b""
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._fail("the connection was closed")

    def go_on(self) -> None:
        """Asks the next question; without one, it is over."""
        request, self._expected = next(self._left, (b"", b""))
        if request:
            self._asked = time.perf_counter()
            self._transport.write(request)
        elif not self.over.done():
            self.over.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(_HEAD_END)
        if not end or len(body) < _length(head):
            return
        self._latencies.append(time.perf_counter() - self._asked)
        if not head.startswith(b"HTTP/1.1 200 ") or self._expected not in body:
            self._fail(f"{self._expected!r} was expected, not {self._received!r}")
            return
        self._received = b""
        self.go_on()

    def _fail(self, why: str) -> None:
        if not self.over.done():
            self.over.set_exception(RuntimeError(f"An instance did not answer as it should: {why}"))


def _length(head: bytes) -> int:
    at = head.lower().index(_LENGTH) + len(_LENGTH)
    return int(head[at:].split(b"\r\n", 1)[0])
