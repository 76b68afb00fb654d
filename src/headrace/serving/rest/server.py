"""The HTTP server of an instance, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from typing import Any

import uvicorn
from fastapi import FastAPI

from headrace.errors import EnvironmentFailed
from headrace.serving.config import ServingConfig
from headrace.serving.rest.protocol import LimitedProtocol

logger = logging.getLogger(__name__)

_START_SECONDS = 30.0
_CLOSE_SECONDS = 2


class HttpServer:
    """Serves an application until it is closed."""

    def __init__(self, config: ServingConfig) -> None:
        self._config = config
        self._socket = _listen(config)
        self.port: int = self._socket.getsockname()[1]
        self.loop: asyncio.AbstractEventLoop | None = None
        """Where requests are worked on, while the server runs."""
        self._server: uvicorn.Server | None = None
        self._started = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """host:port as others reach it."""
        return self._config.address(self.port)

    def start(self, app: FastAPI) -> None:
        """Begins to serve; answers when it does."""
        tls: dict[str, Any] = {}
        if self._config.uses_tls:
            tls = {"ssl_certfile": str(self._config.tls_certificate), "ssl_keyfile": str(self._config.tls_key)}
        settings = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            http=LimitedProtocol,
            timeout_graceful_shutdown=_CLOSE_SECONDS,
            **tls,
        )
        try:
            settings.load()
        except (OSError, ValueError) as error:
            raise EnvironmentFailed(f"The HTTP server on {self.address} cannot start: {error}") from error
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(target=self._run, args=(self._server,), name="headrace-http", daemon=True)
        self._thread.start()
        if not self._started.wait(_START_SECONDS):
            raise EnvironmentFailed(f"The HTTP server on {self.address} did not start; the log says why.")

    def close(self) -> None:
        """Answers what is being asked, then stops."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(_CLOSE_SECONDS + 3)
        self._socket.close()

    def _run(self, server: uvicorn.Server) -> None:
        loop = self.loop = _new_loop()
        try:
            loop.create_task(self._tell_started(server))
            loop.run_until_complete(server.serve([self._socket]))
        except Exception:
            logger.exception("The HTTP server ended")
        finally:
            loop.close()

    async def _tell_started(self, server: uvicorn.Server) -> None:
        while not server.started:
            await asyncio.sleep(0.01)
        self._started.set()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _listen(config: ServingConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((config.host, config.port))
    except OSError as error:
        listening.close()
        raise EnvironmentFailed(
            f"Port {config.port} on {config.host} cannot be used: {error.strerror}. "
            "Give another one with --port, or 0 for any free one."
        ) from error
    return listening
