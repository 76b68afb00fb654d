"""Spark as an application has it: started beside everything else, made ready, and ended."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext

from headrace.config import StreamsConfig
from headrace.kafka.java import Java, find_java
from headrace.spark.first_worker import FirstWorker
from headrace.spark.job import BatchJobs, warm_up
from headrace.spark.jvm import forget, has_context
from headrace.spark.masters import is_local
from headrace.spark.session import make_context, planned_master, workers_python
from headrace.spark.shipping import ship_code
from headrace.spark.worker import Program

logger = logging.getLogger(__name__)

NO_JVM = (Py4JNetworkError, Py4JError, ConnectionError)
"""What is raised where Spark's JVM is gone: there is nothing left to stop."""
_SPARK_LEVELS = {logging.DEBUG: "INFO", logging.INFO: "WARN"}


class SparkRuntime:
    """Spark's context. One of the user's own is used as it is, and stays when the application ends."""

    def __init__(self, application_id: str, config: StreamsConfig) -> None:
        self._application_id = application_id
        self._config = config
        self._context: SparkContext | None = None
        self._owns_context = False
        self._planned_master: str | None = None
        """The master of a context that is being made; None where only the context knows."""
        self._is_warm = False
        self._is_wanted = threading.Event()
        """Set when batches wait for Spark."""
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "headrace-spark")
        self._java: Future[Java] | None = None
        self._starting: Future[SparkContext] | None = None

    def start(self) -> Future[SparkContext]:
        """Begins to start Spark, which takes seconds; one that has started, or is starting, is enough."""
        if self._starting is None:
            self._owns_context = not has_context()
            self._planned_master = planned_master(self._config.spark) if self._owns_context else None
            self._java = self._pool.submit(find_java)
            self._starting = self._pool.submit(self._start)
        return self._starting

    def first_worker(self) -> FirstWorker | None:
        """A worker for the time until Spark is ready; None where it is, or where Spark's workers are not like it."""
        settings = self._config.spark
        if self._starting is not None or has_context() or workers_python(settings) != sys.executable:
            return None
        master = planned_master(settings)
        if master is None or not is_local(master) or not FirstWorker.is_like_sparks(settings):
            return None
        return FirstWorker(settings)

    def check_java(self) -> None:
        """Raises EnvironmentFailed where Spark cannot start for want of a Java."""
        self.start()
        assert self._java is not None
        self._java.result()

    def context(self) -> SparkContext:
        """The context, when it has started; raises why it has not."""
        return self.start().result()

    def warm_up(self) -> None:
        """Has Spark and its workers before they are needed."""
        self._warm_up(self.context())

    def jobs(self, program: Program, pickled: bytes) -> Future[BatchJobs]:
        """What runs the batches of a program, when Spark and its workers are ready."""
        return self._pool.submit(self._make_jobs, self.start(), program, pickled)

    def hurry(self) -> None:
        """Ends what is only done to have Spark faster later on: batches wait for it."""
        self._is_wanted.set()

    @property
    def is_local(self) -> bool:
        """Whether all tasks run on this machine; where only Spark knows, it is waited for."""
        self.start()
        return is_local(self.context().master if self._planned_master is None else self._planned_master)

    @property
    def is_lost(self) -> bool:
        """Whether there is no Spark: it did not start, its JVM has died, or the user has stopped the context."""
        if self._starting is not None:
            wait([self._starting])
        try:
            return self._context is None or not self._context.defaultParallelism
        except (*NO_JVM, AttributeError):
            return True

    @property
    def is_users_own(self) -> bool:
        """Whether it was there before the application."""
        return self._context is not None and not self._owns_context

    def forget(self) -> None:
        """Lets go of a context that is lost: the next start makes a new one."""
        if self._owns_context:
            forget(self._context)
        self._context, self._starting, self._is_warm = None, None, False
        self._is_wanted.clear()

    def close(self) -> None:
        """Ends Spark, unless it is the user's own."""
        self.hurry()
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._context is not None and self._owns_context:
            with contextlib.suppress(*NO_JVM):
                self._context.stop()

    def _start(self) -> SparkContext:
        assert self._java is not None
        context = make_context(
            self._application_id,
            threads=self._config.num_stream_threads,
            settings=self._config.spark,
            java=self._java.result(),
        )
        self._context = context
        if self._owns_context:
            context.setLogLevel(spark_log_level())
        ship_code(context)
        return context

    def _make_jobs(self, starting: Future[SparkContext], program: Program, pickled: bytes) -> BatchJobs:
        context = starting.result()
        jobs = BatchJobs(context, program, pickled)
        if self._owns_context:
            self._warm_up(context)
        return jobs

    def _warm_up(self, context: SparkContext) -> None:
        with self._lock:
            if self._is_warm:
                return
            try:
                warm_up(context, self._is_wanted.is_set)
            except Exception as error:
                logger.debug("workers were not warmed up", exc_info=error)
            self._is_warm = True


def spark_log_level() -> str:
    """The level of Spark's log: a step quieter than this program's own, as Spark has much to say."""
    return _SPARK_LEVELS.get(logging.getLogger(__name__).getEffectiveLevel(), "ERROR")
