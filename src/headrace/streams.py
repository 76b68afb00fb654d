"""Streams: a topology at work on Spark and Kafka."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from headrace.config import StreamsConfig
from headrace.errors import ConfigError, StreamsError
from headrace.task.defaults import check_serdes
from headrace.topology import Topology

if TYPE_CHECKING:
    from headrace.kafka.embedded import EmbeddedKafka
    from headrace.spark.engine import Engine
    from headrace.spark.query import BatchProgress

logger = logging.getLogger(__name__)


class State(Enum):
    """What an application is doing."""

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"

    def __str__(self) -> str:
        return self.value


class ExceptionResponse(Enum):
    """What to do about an exception that no other handler took."""

    REPLACE_THREAD = "REPLACE_THREAD"
    SHUTDOWN_CLIENT = "SHUTDOWN_CLIENT"
    SHUTDOWN_APPLICATION = "SHUTDOWN_APPLICATION"


REPLACE_THREAD = ExceptionResponse.REPLACE_THREAD
SHUTDOWN_CLIENT = ExceptionResponse.SHUTDOWN_CLIENT
SHUTDOWN_APPLICATION = ExceptionResponse.SHUTDOWN_APPLICATION

UncaughtExceptionHandler = Callable[[Exception], ExceptionResponse]
ProgressListener = Callable[["BatchProgress"], None]


class Streams:
    """Runs a topology until it is closed. A context manager: it starts on entering and closes on leaving."""

    def __init__(self, topology: Topology, config: StreamsConfig) -> None:
        if not config.application_id:
            raise ConfigError('application_id is needed to run: StreamsConfig(application_id="orders")')
        self._topology = topology.freeze()
        self._config = config
        check_serdes(self._topology, config)
        self._state = State.CREATED
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._handler: UncaughtExceptionHandler = lambda error: SHUTDOWN_CLIENT
        self._listeners: list[ProgressListener] = []
        self._kafka: EmbeddedKafka | None = None
        self._engine: Engine | None = None
        self._watcher: threading.Thread | None = None

    @property
    def state(self) -> str:
        """One of CREATED, REBALANCING, RUNNING, PENDING_SHUTDOWN, NOT_RUNNING, PENDING_ERROR, ERROR."""
        return self._state.value

    def on_progress(self, listener: ProgressListener) -> None:
        """Calls the function after each batch."""
        self._listeners.append(listener)

    def set_uncaught_exception_handler(self, handler: UncaughtExceptionHandler) -> None:
        """Asks the function `fn(exception)` what to do when the pipeline fails."""
        self._handler = handler

    def start(self) -> None:
        """Starts the pipeline; answers when it runs."""
        from headrace.spark.engine import Engine

        if self._state is not State.CREATED:
            raise StreamsError(f"The application is {self._state}; it can be started once.")
        self._become(State.REBALANCING)
        try:
            self._engine = Engine(self._topology, self._config, self._servers(), self._tell)
            self._engine.start()
        except BaseException:
            self._become(State.ERROR)
            self._release()
            raise
        self._become(State.RUNNING)
        self._watcher = threading.Thread(target=self._watch, name="headrace-watcher", daemon=True)
        self._watcher.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the application has ended; answers whether it has. Raises what made it fail."""
        ended = (State.NOT_RUNNING, State.ERROR)
        with self._changed:
            over = self._changed.wait_for(lambda: self._state in ended, timeout)
        if self._failure is not None:
            raise self._failure
        return over

    def process_all_available(self) -> None:
        """Waits until everything that is in the source topics now has been processed."""
        if self._engine is None:
            raise StreamsError("The application is not running.")
        self._engine.process_all_available()

    def close(self) -> None:
        """Finishes the batch that runs and stops."""
        if self._state in (State.CREATED, State.NOT_RUNNING, State.ERROR):
            self._release()
            if self._state is State.CREATED:
                self._become(State.NOT_RUNNING)
            return
        self._become(State.PENDING_SHUTDOWN)
        if self._engine is not None:
            self._engine.stop()
        if self._watcher is not None:
            self._watcher.join()
        self._release()
        self._become(State.NOT_RUNNING)

    def __enter__(self) -> Streams:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _servers(self) -> str:
        if self._config.bootstrap_servers:
            return self._config.bootstrap_servers
        from headrace.kafka.embedded import EmbeddedKafka

        self._kafka = EmbeddedKafka(None if self._config.state_dir is None else Path(self._config.state_dir))
        self._kafka.start()
        return self._kafka.bootstrap_servers

    def _watch(self) -> None:
        assert self._engine is not None
        while True:
            error = self._engine.await_end()
            if error is None or self._state is State.PENDING_SHUTDOWN:
                return
            response = self._ask(error)
            if response is not REPLACE_THREAD:
                self._failure = error
                self._become(State.PENDING_ERROR)
                self._release()
                self._become(State.ERROR)
                return
            logger.warning("The pipeline failed and is started again: %s", error)
            self._engine.restart()

    def _ask(self, error: Exception) -> ExceptionResponse:
        try:
            return self._handler(error)
        except Exception:
            logger.exception("The uncaught exception handler failed itself; the application stops.")
            return SHUTDOWN_CLIENT

    def _tell(self, progress: BatchProgress) -> None:
        for listener in self._listeners:
            listener(progress)

    def _release(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        if self._kafka is not None:
            self._kafka.close()
            self._kafka = None

    def _become(self, state: State) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()
