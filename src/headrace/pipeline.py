"""The pipeline of an application, kept going: it outlasts an absent Kafka and asks what to do about failures."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Protocol

from headrace.config import StreamsConfig
from headrace.errors import EnvironmentFailed, FencedError, KafkaAway, SparkEnded, StreamsError
from headrace.responses import REPLACE_THREAD, SHUTDOWN_CLIENT, ExceptionResponse
from headrace.topology import Topology

if TYPE_CHECKING:
    from headrace.spark.engine import Engine
    from headrace.spark.progress import BatchProgress

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 10.0


class Listener(Protocol):
    """Who is told how the pipeline does, and decides what becomes of it."""

    def on_batch(self, progress: BatchProgress) -> None:
        """A batch is committed."""
        ...

    def on_failure(self, error: Exception) -> ExceptionResponse:
        """The pipeline failed; what is to be done?"""
        ...

    def on_interruption(self) -> None:
        """The pipeline stands still and will be started again."""
        ...

    def on_running(self) -> None:
        """The pipeline runs."""
        ...

    def on_end(self, error: Exception, response: ExceptionResponse) -> None:
        """The pipeline has failed for good."""
        ...

    def check_kafka(self) -> None:
        """Raises EnvironmentFailed where there is no use in waiting for Kafka."""
        ...


class Pipeline:
    """An engine and the thread that watches over it."""

    def __init__(self, topology: Topology, config: StreamsConfig, bootstrap_servers: str, listener: Listener) -> None:
        from headrace.spark.engine import Engine

        self._listener = listener
        self._engine: Engine = Engine(topology, config, bootstrap_servers, self._tell)
        self._closing = threading.Event()
        self._pause = _FIRST_PAUSE
        self._starts = 0
        self._ended = False
        self._changed = threading.Condition()
        self._watcher: threading.Thread | None = None
        self.trouble: str | None = None
        """What the pipeline waits for before it goes on; None where it does not wait."""

    def warm_up(self) -> None:
        """Has Spark ready before it is needed."""
        self._engine.warm_up()

    def start(self) -> None:
        """Starts the pipeline, after a stop again; answers when it runs. Raises what a user can do something about."""
        self._closing.clear()
        self._ended = False
        try:
            self._engine.start()
        except Exception as error:
            cause = self._engine.cause_of(error)
            if cause is error:
                raise
            raise cause from error
        self._tell_of_start()
        self._watcher = threading.Thread(target=self._watch, name="headrace-watcher", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """Finishes the batch that runs, if that takes no longer than some seconds, and stops."""
        self._closing.set()
        self._engine.stop()
        if self._watcher is not None and self._watcher is not threading.current_thread():
            self._watcher.join()

    def close(self) -> None:
        """Stops, and lets go of Spark."""
        self.stop()
        self._engine.close()

    def process_all_available(self) -> None:
        """Waits until everything that is in the source topics now has been processed."""
        from headrace.spark.batches import LoopEnded

        while True:
            starts = self._starts
            try:
                return self._engine.process_all_available()
            except LoopEnded:
                self._await_restart(starts)

    def _watch(self) -> None:
        while (error := self._engine.await_end()) is not None and not self._closing.is_set():
            if not self._recover(error):
                break
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _recover(self, error: Exception) -> bool:
        """Gets the pipeline going again after an error; False if it is to end."""
        self._listener.on_interruption()
        while not self._closing.is_set():
            if isinstance(error, KafkaAway):
                try:
                    if not self._outlast(error):
                        break
                except EnvironmentFailed as failure:
                    self._listener.on_end(failure, SHUTDOWN_CLIENT)
                    break
            else:
                response = self._listener.on_failure(error)
                # Who is fenced must not come back: the two would take over from each other for ever. And a context
                # that was given does not come back.
                if response is not REPLACE_THREAD or isinstance(error, FencedError | SparkEnded):
                    self._listener.on_end(error, response)
                    break
                logger.warning("The pipeline failed and is started again: %s", error)
                self._closing.wait(self._pause)
            self._pause = min(self._pause * 2, _LONGEST_PAUSE)
            try:
                self._engine.restart()
            except Exception as again:
                error = self._engine.cause_of(again)
                continue
            if self.trouble is not None:
                logger.warning("Kafka answers again; the application goes on.")
                self.trouble = None
            self._tell_of_start()
            self._listener.on_running()
            return True
        return False

    def _tell_of_start(self) -> None:
        with self._changed:
            self._starts += 1
            self._changed.notify_all()

    def _outlast(self, error: Exception) -> bool:
        """Waits until Kafka answers again, and says so once; False if the application is closed before."""
        if self.trouble is None:
            servers = self._engine.bootstrap_servers
            self.trouble = f"waiting for Kafka at {servers}"
            logger.warning("Kafka at %s does not answer; the application waits and goes on by itself.", servers)
            logger.debug("What told of it:", exc_info=error)
        return self._engine.await_kafka(self._is_hopeless) and not self._closing.wait(self._pause)

    def _is_hopeless(self) -> bool:
        self._listener.check_kafka()
        return self._closing.is_set()

    def _await_restart(self, starts: int) -> None:
        """Waits until the pipeline has been started more often; raises if it will not be."""
        with self._changed:
            self._changed.wait_for(lambda: self._starts > starts or self._ended)
            if self._starts == starts:
                raise StreamsError("The pipeline has ended.")

    def _tell(self, progress: BatchProgress) -> None:
        self._pause = _FIRST_PAUSE
        self._listener.on_batch(progress)
