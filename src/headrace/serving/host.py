"""Hosts an instance in a process: its copies, its HTTP server, and the pipeline where it leads."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.config import StreamsConfig
from headrace.errors import FencedError, KafkaAway, StreamsError
from headrace.kafka.clients import ClientSettings
from headrace.responses import SHUTDOWN_CLIENT, ExceptionResponse
from headrace.serving.config import ServingConfig
from headrace.serving.reading import ANY
from headrace.serving.service import Service
from headrace.serving.views import AsyncStore, Run, Store, runner_on
from headrace.topology import Topology

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI

    from headrace.serving.rest.server import HttpServer

logger = logging.getLogger(__name__)

_READY_SECONDS = 60.0
_SETTLE_SECONDS = 5.0
_TAKE_BACK_SECONDS = 15.0  # an instance that another one has taken for dead knows it by then


class Pipeline(Protocol):
    """What the leader runs."""

    def warm_up(self) -> None:
        """Has it ready before it is needed."""
        ...

    def start(self) -> None:
        """Starts it."""
        ...

    def stop(self) -> None:
        """Stops it."""
        ...


class _Order(NamedTuple):
    """Whether this instance is to lead."""

    leads: bool
    run: int | None = None
    """The run of the pipeline that it is about; None: any. One that came late must not end the next run."""


class Host:
    """One instance in this process. Without `serving` it is alone, keeps all copies and listens nowhere."""

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        serving: ServingConfig | None,
        settings: ClientSettings,
        state_dir: Path,
        *,
        routers: Sequence[APIRouter] = (),
        within: FastAPI | None = None,
        pipeline: Pipeline | None = None,
        on_failure: Callable[[Exception, ExceptionResponse], None] = lambda error, response: None,
    ) -> None:
        self._serving = serving
        self._routers = routers
        self._within = within
        self._pipeline = pipeline
        self._on_failure = on_failure
        self._server: HttpServer | None = None
        self._loop: _LoopThread | None = None
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()
        self._conductor: threading.Thread | None = None
        self.is_leader = False
        self._is_chosen = False
        """Whether the instances have this one lead, also while somebody else runs the pipeline."""
        self._runs = 0
        self.address = self._listen(config)
        self.service = Service.of(
            topology,
            config,
            serving or ServingConfig(),
            settings,
            state_dir,
            address=self.address,
            leads=pipeline is not None and serving is not None,
            on_leadership=lambda leads: self._orders.put(_Order(leads)),
            on_failure=lambda error: self._on_failure(error, SHUTDOWN_CLIENT),
        )
        self.service.on_shutdown = self._ended_by_others

    def start(self) -> None:
        """Joins the others and listens."""
        self.service.instance.start()
        if self._serving is None:
            self._loop = _LoopThread()
            return
        from headrace.serving.rest.app import make_app, mount_in

        if self._within is not None:
            mount_in(self._within, self.service)
            self._loop = _LoopThread()
        else:
            assert self._server is not None
            self._server.start(make_app(self.service, self._routers))
        if self._pipeline is not None:
            self._conductor = threading.Thread(
                target=self._conduct, args=(self._pipeline,), name="headrace-conductor", daemon=True
            )
            self._conductor.start()

    def store(self, name: str) -> Store:
        """A store for the programs of this process."""
        if self._serving is None and not self.service.instance.await_ready(_READY_SECONDS):
            raise StreamsError(f"Store {name} is still being restored.")
        return Store(AsyncStore(self.service.reader, name, ANY), self._run)

    def step_down(self) -> None:
        """Leaves the pipeline to whoever has taken it over."""
        self._orders.put(_Order(False, self._runs))

    def end_all(self) -> None:
        """Has all other instances end as well."""
        self._run(self.service.end_others())

    def close(self) -> None:
        """Leaves the others and stops listening."""
        self.service.closing.set()
        self._orders.put(None)
        if self._conductor is not None and self._conductor is not threading.current_thread():
            self._conductor.join()
        # Nobody may be reading when the copies are closed.
        if self._server is not None:
            self._server.close()
        self.service.instance.close()
        if self._loop is not None:
            self._loop.close()

    def _listen(self, config: StreamsConfig) -> str | None:
        if self._serving is None:
            return None
        if self._within is not None:
            return config.application_server
        from headrace.serving.rest.server import HttpServer

        self._server = HttpServer(self._serving)
        return self._server.address

    @property
    def _run(self) -> Run:
        loop = self._loop.loop if self._loop is not None else None if self._server is None else self._server.loop
        assert loop is not None
        return runner_on(loop)

    def _next_order(self, pipeline: Pipeline) -> _Order | None:
        """The next order. Who does not lead from the beginning has Spark ready a little later than who does."""
        was_fenced = self._is_chosen and not self.is_leader
        try:
            return self._orders.get(timeout=_TAKE_BACK_SECONDS if was_fenced else _SETTLE_SECONDS)
        except Empty:
            if was_fenced:
                logger.warning("No other instance leads: this one takes the pipeline back.")
                return _Order(True)
            pipeline.warm_up()
            return self._orders.get()

    def _conduct(self, pipeline: Pipeline) -> None:
        """Starts the pipeline when this instance leads, and stops it when it does not any more."""
        try:
            while (order := self._next_order(pipeline)) is not None:
                if order.run is None:
                    self._is_chosen = order.leads
                if order.leads == self.is_leader or order.run not in (None, self._runs):
                    continue
                self.is_leader = order.leads
                if order.leads:
                    self._lead(pipeline)
                else:
                    logger.info("The pipeline runs elsewhere now.")
                    pipeline.stop()
        except Exception as error:
            logger.exception("The pipeline cannot be started")
            self._on_failure(error, SHUTDOWN_CLIENT)

    def _lead(self, pipeline: Pipeline) -> None:
        logger.info("This instance leads now: it runs the pipeline.")
        self._runs += 1
        try:
            pipeline.start()
        except (FencedError, KafkaAway) as error:
            # It is tried again while no other instance leads.
            logger.warning("%s", error)
            self.is_leader = False

    def _ended_by_others(self) -> None:
        error = StreamsError("Another instance has ended the application, as its pipeline failed.")
        self._on_failure(error, SHUTDOWN_CLIENT)


class _LoopThread:
    """An event loop for programs that have none."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="headrace-loop", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the loop."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
