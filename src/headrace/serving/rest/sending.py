"""Large answers on their way to clients: how much memory all of them take together, and how long one may take."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import Message, Receive, Scope, Send

from headrace.serving.rest.problems import RETRY_SECONDS, Problem

LARGE_BYTES = 64 * 1024
"""An answer that is larger counts, and is sent in pieces of this size."""
LEAST_BYTES_A_SECOND = 256 * 1024
"""How fast a client has to read a large answer; a slower one is disconnected after the grace."""
GRACE_SECONDS = 30.0
_START = "http.response.start"


class SlowClient(Exception):
    """A client did not read its answer in time."""


class AnswersInFlight:
    """The large answers of an instance that are being sent."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0

    @contextmanager
    def sending(self, size: int) -> Iterator[None]:
        """Counts so many bytes meanwhile; Problem where that would be too many with all others."""
        if self._bytes + size > self._most_bytes:
            raise Problem(
                503,
                "Too many large answers at once",
                f"The instance is sending {self._bytes} bytes to other clients already. Ask for less, or later.",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        self._bytes += size
        try:
            yield
        finally:
            self._bytes -= size


class PacedSend:
    """Sends an answer: a large one in pieces, so that no more than a piece waits outside of what is counted."""

    def __init__(self, answers: AnswersInFlight, scope: Scope, receive: Receive, send: Send) -> None:
        self._answers = answers
        self._scope = scope
        self._receive = receive
        self._send = send
        self._start: Message | None = None
        self._is_refused = False

    async def __call__(self, message: Message) -> None:
        """Takes what an ASGI application sends."""
        if message["type"] == _START:
            self._start = message  # it waits for the body: its status may become another one
            return
        if self._is_refused:
            return
        body = message.get("body", b"")
        if len(body) <= LARGE_BYTES:
            await self._begin()
            await self._send(message)
            return
        try:
            with self._answers.sending(len(body)):
                await asyncio.wait_for(
                    self._send_in_pieces(message, body), GRACE_SECONDS + len(body) / LEAST_BYTES_A_SECOND
                )
        except Problem as refusal:
            if self._start is None:
                raise  # a part of it is sent already
            self._is_refused = True
            await refusal.response()(self._scope, self._receive, self._send)
        except asyncio.TimeoutError:
            raise SlowClient("A client did not read its answer in time.") from None

    async def _begin(self) -> None:
        start, self._start = self._start, None
        if start is not None:
            await self._send(start)

    async def _send_in_pieces(self, message: Message, body: bytes) -> None:
        await self._begin()
        rest = memoryview(body)
        while len(rest) > LARGE_BYTES:
            await self._send({**message, "body": bytes(rest[:LARGE_BYTES]), "more_body": True})
            rest = rest[LARGE_BYTES:]
        await self._send({**message, "body": bytes(rest)})
