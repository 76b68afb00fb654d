"""HTTP with limits that hold before anybody is asked who they are: sizes, times, connections."""

from __future__ import annotations

import asyncio
import resource
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headrace.serving.rest.guard import INTERNAL, OPEN_PATHS

MOST_HEADER_BYTES = 64 * 1024
HEADER_SECONDS = 10.0
"""How long the headers of a request may take, from the moment that it may begin."""
BODY_SECONDS = 30.0
WRITE_SECONDS = 30.0
"""How long a client may take to read what it has asked for, until it counts as gone."""
_OTHER_FILES = 300
"""How many open files the rest of the process may need: connections to Kafka, stores, Spark."""
MOST_CONNECTIONS = min(1_000, max(200, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OTHER_FILES))
KEPT_CONNECTIONS = 100
"""So many of them are kept for peers and for questions about health."""

_KEPT_FOR = (INTERNAL.encode(), *(path.encode() for path in OPEN_PATHS))


class _Over(Exception):
    """The connection was answered and closed: the rest of what it sent does not matter."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._unfinished = 0
        """How many bytes have come of headers that are not complete."""
        self._is_kept = False
        """Whether it is one of those for peers and health."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
            return
        self._is_kept = len(self.connections) > MOST_CONNECTIONS - KEPT_CONNECTIONS
        self._expect_within(HEADER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        self._stop_write_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._unfinished += len(data)
        super().data_received(data)
        if self._unfinished > MOST_HEADER_BYTES:
            self._refuse(431)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_within(HEADER_SECONDS)

    def on_headers_complete(self) -> None:
        self._unfinished = 0
        self._expect_within(BODY_SECONDS)
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MOST_HEADER_BYTES:
            self._refuse(431)
            raise _Over
        if self._is_kept and not self.url.startswith(_KEPT_FOR):
            self._refuse(503)
            raise _Over
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unfinished = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unfinished = 0
        self._expect_nothing()
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._expect_nothing()
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        self._expect_nothing()
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_write_timer()
        self._write_timer = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_write_timer()
        super().resume_writing()

    def _refuse(self, status: int) -> None:
        """Answers in one line and closes."""
        self._expect_nothing()
        if self.transport.is_closing():
            return
        phrase = HTTPStatus(status).phrase
        head = f"HTTP/1.1 {status} {phrase}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode())
        self.transport.close()

    def _expect_within(self, seconds: float) -> None:
        self._expect_nothing()
        self._timer = self.loop.call_later(seconds, self._refuse, 408)

    def _expect_nothing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
