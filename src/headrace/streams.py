"""Streams: a topology at work on Spark and Kafka, and its stores for whoever asks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headrace.config import StreamsConfig
from headrace.errors import ConfigError, EnvironmentFailed, FencedError, StreamsError
from headrace.responses import REPLACE_THREAD, SHUTDOWN_APPLICATION, SHUTDOWN_CLIENT, ExceptionResponse
from headrace.task.defaults import check_serdes
from headrace.topology import Topology

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI

    from headrace.kafka.clients import ClientSettings
    from headrace.kafka.embedded import EmbeddedKafka
    from headrace.kafka.locks import Lock
    from headrace.pipeline import Pipeline
    from headrace.serving.config import ServingConfig
    from headrace.serving.host import Host
    from headrace.serving.metadata import InstanceMetadata, KeyMetadata
    from headrace.serving.views import Store
    from headrace.spark.progress import BatchProgress

__all__ = ["REPLACE_THREAD", "SHUTDOWN_APPLICATION", "SHUTDOWN_CLIENT", "ExceptionResponse", "State", "Streams"]

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


_ENDED = (State.NOT_RUNNING, State.ERROR)

UncaughtExceptionHandler = Callable[[Exception], ExceptionResponse]
ProgressListener = Callable[["BatchProgress"], None]
ShutdownListener = Callable[[Exception], None]


class Streams:
    """Runs a topology until it is closed. A context manager: it starts on entering and closes on leaving.

    With `serving`, or an `application_server` in the configuration, it is one of several instances: one of them runs
    the pipeline, and all of them answer for the stores. `routers` are endpoints of the application's own.
    """

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        *,
        serving: ServingConfig | None = None,
        routers: Sequence[APIRouter] = (),
        leads: bool = True,
    ) -> None:
        if not config.application_id:
            raise ConfigError('application_id is needed to run: StreamsConfig(application_id="orders")')
        self._topology = topology.freeze()
        self._config = config
        check_serdes(self._topology, config)
        self._serving = serving
        self._routers = tuple(routers)
        self._leads = leads
        """Whether it may run the pipeline; an instance that does not only ever serves."""
        self._state = State.CREATED
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._handler: UncaughtExceptionHandler = lambda error: SHUTDOWN_CLIENT
        self._listeners: list[ProgressListener] = []
        self._shutdown_listeners: list[ShutdownListener] = []
        self._lock: Lock | None = None
        self._kafka: EmbeddedKafka | None = None
        self._pipeline: Pipeline | None = None
        self._host: Host | None = None
        self._asking = threading.Lock()
        self._start_is_over = threading.Event()
        self._bootstrap_servers = ""

    # --- its life ----------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """One of CREATED, REBALANCING, RUNNING, PENDING_SHUTDOWN, NOT_RUNNING, PENDING_ERROR, ERROR."""
        return self._state.value

    @property
    def trouble(self) -> str | None:
        """What the application waits for before it goes on; None where it does not wait."""
        pipeline, host = self._pipeline, self._host
        trouble = None if pipeline is None else pipeline.trouble
        return trouble if trouble is not None or host is None else host.service.instance.trouble

    @property
    def address(self) -> str | None:
        """host:port at which this instance can be asked; None where it cannot."""
        return None if self._host is None else self._host.address

    @property
    def is_leader(self) -> bool:
        """Whether this instance runs the pipeline."""
        return self._pipeline is not None and (self._host is None or self._host.is_leader)

    def on_progress(self, listener: ProgressListener) -> None:
        """Calls the function after each batch."""
        self._listeners.append(listener)

    def on_shutdown_application(self, listener: ShutdownListener) -> None:
        """Calls the function with the error when a handler wants the application to end everywhere it runs."""
        self._shutdown_listeners.append(listener)

    def set_uncaught_exception_handler(self, handler: UncaughtExceptionHandler) -> None:
        """Asks the function `fn(exception)` what to do when the pipeline fails."""
        self._handler = handler

    def start(self) -> None:
        """Starts the application; answers when the pipeline runs, or, of several instances, when it has joined them."""
        self._start(None)

    def start_within(self, app: FastAPI) -> None:
        """Starts the application as a part of a FastAPI application, which serves its endpoints."""
        if self._config.application_server is None:
            raise ConfigError("application_server is needed: host:port where the FastAPI application listens")
        self._start(app)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the application has ended; answers whether it has. Raises what made it fail."""
        with self._changed:
            over = self._changed.wait_for(lambda: self._state in _ENDED, timeout)
        if self._failure is not None:
            raise self._failure
        return over

    def process_all_available(self) -> None:
        """Waits until everything that is in the source topics now has been processed."""
        with self._changed:
            self._changed.wait_for(lambda: self._state is not State.REBALANCING)
        if self._failure is not None:
            raise self._failure
        if self._pipeline is None or self._state is not State.RUNNING:
            raise StreamsError(f"The pipeline does not run here: the application is {self._state}.")
        try:
            self._pipeline.process_all_available()
        except StreamsError:
            if self._failure is not None:
                raise self._failure from None
            raise

    def close(self) -> None:
        """Finishes the batch that runs, if that takes no longer than some seconds, and stops."""
        if self._state in (State.CREATED, *_ENDED):
            self._release()
            if self._state is State.CREATED:
                self._become(State.NOT_RUNNING)
            return
        self._become(State.PENDING_SHUTDOWN)
        self._release()
        self._become(State.ERROR if self._failure is not None else State.NOT_RUNNING)

    def __enter__(self) -> Streams:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- its stores --------------------------------------------------------------------------------------------

    def store(self, name: str) -> Store:
        """The store of that name; a key is asked for wherever it is."""
        return self._hosted().store(name)

    def metadata_for_key(self, store: str, key: Any) -> KeyMetadata:
        """The instance that a key of a store belongs to: host, port and partition."""
        return self._hosted().service.metadata_for_key(store, key)

    def metadata_for_all_instances(self) -> list[InstanceMetadata]:
        """Every instance with its partitions."""
        return self._hosted().service.metadata_for_all_instances()

    def _hosted(self) -> Host:
        """The host of the stores; an application that is alone gets copies of them when it is first asked."""
        from headrace.serving.host import Host

        with self._asking:
            if self._host is None:
                if self._state not in (State.RUNNING, State.REBALANCING):
                    raise StreamsError(f"The application is not running: it is {self._state}.")
                host = Host(self._topology, self._config, None, self._settings(), self._state_dir())
                host.start()
                self._host = host
            return self._host

    # --- starting ----------------------------------------------------------------------------------------------

    def _start(self, app: FastAPI | None) -> None:
        from headrace.presence import mark_running

        if self._state is not State.CREATED:
            raise StreamsError(f"The application is {self._state}; it can be started once.")
        assert self._config.application_id is not None
        self._become(State.REBALANCING)
        try:
            self._lock = mark_running(self._state_dir(), self._config.application_id)
            self._bootstrap_servers = self._servers()
            serving = self._serving_config(app)
            if self._leads:
                self._pipeline = self._make_pipeline()
            if serving is None:
                assert self._pipeline is not None
                self._pipeline.start()
            else:
                self._join(serving, app)
        except BaseException:
            self._become(State.ERROR)
            self._release()
            raise
        finally:
            self._start_is_over.set()
        self._move(State.REBALANCING, State.RUNNING)

    def _serving_config(self, app: FastAPI | None) -> ServingConfig | None:
        if self._serving is None and self._config.application_server is None and app is None:
            if not self._leads:
                raise ConfigError("An instance that only serves needs serving=ServingConfig(port=…)")
            return None
        from headrace.serving.config import ServingConfig

        if self._serving is not None:
            return self._serving
        assert self._config.application_server is not None
        return ServingConfig.at(self._config.application_server)

    def _make_pipeline(self) -> Pipeline:
        from headrace.pipeline import Pipeline

        return Pipeline(self._topology, self._config, self._bootstrap_servers, _Listener(self))

    def _join(self, serving: ServingConfig, app: FastAPI | None) -> None:
        """Becomes one of several instances; the one that leads runs the pipeline."""
        from headrace.kafka.internal_topics import prepare_topics
        from headrace.serving.host import Host

        settings = self._settings()
        prepare_topics(self._topology, self._config, settings)
        self._host = Host(
            self._topology,
            self._config,
            serving,
            settings,
            self._state_dir(),
            routers=self._routers,
            within=app,
            pipeline=self._pipeline,
            on_failure=self._fail,
        )
        self._host.start()

    def _servers(self) -> str:
        """Where Kafka is. The embedded one is held, also when its address was given: it ends without users."""
        from headrace.kafka.embedded import EmbeddedKafka

        kafka = EmbeddedKafka(self._state_dir())
        given, endpoint = self._config.bootstrap_servers, kafka.endpoint
        if given and (endpoint is None or endpoint.bootstrap_servers != given):
            return given
        self._kafka = kafka.start()
        return given or kafka.bootstrap_servers

    def _settings(self) -> ClientSettings:
        from headrace.kafka.clients import ClientSettings

        return ClientSettings.of(self._config, self._bootstrap_servers)

    def _state_dir(self) -> Path:
        from headrace.presence import state_directory

        return state_directory(self._config)

    # --- ending ------------------------------------------------------------------------------------------------

    def _fail(self, error: Exception, response: ExceptionResponse) -> None:
        """Ends the application with the error."""
        with self._changed:
            if self._failure is not None or self._state in (State.PENDING_SHUTDOWN, *_ENDED):
                return
            self._failure = error
        self._become(State.PENDING_ERROR)
        if response is SHUTDOWN_APPLICATION:
            for listener in self._shutdown_listeners:
                listener(error)
            if self._host is not None:
                self._host.end_all()
        # The thread that failed is one of those to be ended.
        threading.Thread(target=self._end_failed, name="headrace-end", daemon=True).start()

    def _end_failed(self) -> None:
        # What is half started cannot be ended.
        self._start_is_over.wait()
        self._release()
        self._become(State.ERROR)

    def _release(self) -> None:
        with self._asking:
            host, self._host = self._host, None
        pipeline, self._pipeline = self._pipeline, None
        # The pipeline first: who takes over is to find it at rest.
        if pipeline is not None:
            pipeline.close()
        if host is not None:
            host.close()
        if self._kafka is not None:
            self._kafka.close()
            self._kafka = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _become(self, state: State) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()

    # --- what the pipeline says --------------------------------------------------------------------------------

    def _ask_handler(self, error: Exception) -> ExceptionResponse:
        try:
            return self._handler(error)
        except Exception:
            logger.exception("The uncaught exception handler failed itself; the application stops.")
            return SHUTDOWN_CLIENT

    def _move(self, before: State, after: State) -> None:
        with self._changed:
            if self._state is before:
                self._state = after
                self._changed.notify_all()


class _Listener:
    """Takes what the pipeline says to the application."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def on_batch(self, progress: BatchProgress) -> None:
        for listener in self._streams._listeners:
            listener(progress)

    def on_failure(self, error: Exception) -> ExceptionResponse:
        return self._streams._ask_handler(error)

    def on_interruption(self) -> None:
        self._streams._move(State.RUNNING, State.REBALANCING)

    def on_running(self) -> None:
        self._streams._move(State.REBALANCING, State.RUNNING)

    def on_end(self, error: Exception, response: ExceptionResponse) -> None:
        host = self._streams._host
        if isinstance(error, FencedError) and host is not None and host.address is not None:
            # Another instance leads by now, or somebody runs the application beside the instances: then the one that
            # they have lead takes the pipeline back. Either way this one still answers for its stores.
            logger.warning("%s", error)
            host.step_down()
            self.on_running()
        else:
            self._streams._fail(error, response)

    def check_kafka(self) -> None:
        kafka = self._streams._kafka
        if kafka is not None and kafka.failure is not None:
            raise EnvironmentFailed(kafka.failure)
