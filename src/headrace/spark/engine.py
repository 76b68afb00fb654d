"""The engine: makes topics, session and query ready, and keeps the query going."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable

from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from headrace.config import EXACTLY_ONCE_V2, StreamsConfig
from headrace.errors import HeadraceError
from headrace.kafka.absence import await_kafka
from headrace.kafka.clients import ClientSettings
from headrace.kafka.internal_topics import make_topics, plan_topics
from headrace.kafka.partitions import PartitionPlan
from headrace.kafka.topics import Topics, repartition_topics
from headrace.presence import state_directory
from headrace.spark.checkpoint import StateFiles
from headrace.spark.checkpoint_location import CheckpointLocation
from headrace.spark.commit import PlainCommitter, TransactionalCommitter, last_commit, taken_over
from headrace.spark.compatibility import check_compatible
from headrace.spark.failures import cause_of
from headrace.spark.layout import Layout, lay_out
from headrace.spark.masters import is_local
from headrace.spark.query import BatchProgress, BatchRunner, empty_batch, start_query
from headrace.spark.session import make_session, source_options
from headrace.spark.shipping import ship_code
from headrace.spark.source import read_stream
from headrace.spark.worker import Program, host_directory
from headrace.topology import Topology

logger = logging.getLogger(__name__)

_NO_JVM = (Py4JNetworkError, ConnectionError)
"""What is raised where Spark's JVM is gone: there is nothing left to stop."""
_LAST_BATCH_SECONDS = 8.0
"""How long a batch may take to end when the application is told to stop."""
_SOURCE = {
    # A Kafka that is silent for so long counts as away.
    "kafka.default.api.timeout.ms": "15000",
    "kafka.request.timeout.ms": "12000",
    "fetchOffset.numRetries": "1",
}
_SPARK_LEVELS = {logging.DEBUG: "INFO", logging.INFO: "WARN"}


class Stopping(HeadraceError):
    """No batch is begun any more."""


class Gate:
    """Lets batches through until it is closed, and knows of the one inside."""

    def __init__(self, run: Callable[[DataFrame, int], None]) -> None:
        self._run = run
        self._changed = threading.Condition()
        self._closed = False
        self._busy = False

    def run(self, frame: DataFrame, number: int) -> None:
        """Runs a batch. One that is turned away has to fail: Spark would take it for done."""
        with self._changed:
            if self._closed:
                raise Stopping(f"batch {number} is left for the next start")
            self._busy = True
        try:
            self._run(frame, number)
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def close(self, seconds: float) -> bool:
        """Lets no batch in any more; whether the one inside has ended in time."""
        with self._changed:
            self._closed = True
            return self._changed.wait_for(lambda: not self._busy, seconds)


class Engine:
    """One application on Spark."""

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        bootstrap_servers: str,
        on_progress: Callable[[BatchProgress], None],
    ) -> None:
        assert config.application_id is not None
        self._topology = topology
        self._config = config
        self._application_id = config.application_id
        self._settings = ClientSettings.of(config, bootstrap_servers)
        self._state_dir = state_directory(config)
        self._on_progress = on_progress
        self._session: SparkSession | None = None
        self._owns_session = False
        self._is_warm = False
        self._query: StreamingQuery | None = None
        self._runner: BatchRunner | None = None
        self._gate: Gate | None = None
        self._stopping = False
        self._starting = threading.Lock()
        self._committer: TransactionalCommitter | None = None

    def warm_up(self) -> None:
        """Has a Spark session and workers before they are needed."""
        if self._session is None:
            session = self._make_session(CheckpointLocation.of(self._config, self._state_dir))
            ship_code(session)
            self._warm_workers(session)

    def start(self) -> None:
        """Checks topics and checkpoint, then starts the query; after a stop it may be started again."""
        with self._starting:
            self._stopping = False
        plan = plan_topics(self._topology, self._config, self._settings)
        checkpoint = CheckpointLocation.of(self._config, self._state_dir)
        if checkpoint.is_local:
            check_compatible(checkpoint.root(), self._topology, plan)
            session = self._make_session(checkpoint)
        else:
            session = self._make_session(checkpoint)
            check_compatible(checkpoint.root(session), self._topology, plan)
        make_topics(self._topology, self._config, self._settings, plan)
        self._layout = lay_out(self._topology, plan, self._application_id, Topics(self._settings).describe())
        self._make_looped_topics(plan, self._layout)
        ship_code(session)
        self._warm_workers(session)
        local = is_local(session.sparkContext.master)
        if checkpoint.is_local and not local:
            logger.info(
                "The checkpoint is on this machine's disk, so the driver must start here again: %s", checkpoint.base
            )
        copies = host_directory(str(self._state_dir), self._application_id) if local else ""
        self._program = Program(
            self._topology, self._config, self._settings, self._layout, self._application_id, copies
        )
        self._checkpoint, self._files = checkpoint.spark, StateFiles(checkpoint.state(session))
        self._begin()

    def _make_session(self, checkpoint: CheckpointLocation) -> SparkSession:
        """The session; one of the user's own is used as it is, and stays when the application ends."""
        if self._session is not None:
            return self._session
        self._owns_session = SparkContext._active_spark_context is None
        session = self._session = make_session(
            self._application_id,
            threads=self._config.num_stream_threads,
            checkpoint=checkpoint.spark,
            settings=self._config.spark,
        )
        if self._owns_session:
            session.sparkContext.setLogLevel(spark_log_level())
        return session

    def _warm_workers(self, session: SparkSession) -> None:
        """Has Spark run a batch without tasks meanwhile: what is slow the first time is over when records come."""

        def warm() -> None:
            try:
                empty_batch(session).toArrow()
            except Exception as error:
                logger.debug("workers were not warmed up", exc_info=error)

        if not self._is_warm:
            self._is_warm = True
            threading.Thread(target=warm, name="headrace-warm-up", daemon=True).start()

    def restart(self) -> None:
        """Starts the query that failed again; FencedError if another process has gone on with it meanwhile.

        To begin is to stop every other process. Who was not there for a while must not do so without a look.
        """
        assert self._runner is not None
        self._runner.end()
        if not self._runner.may_have_made(last_commit(self._settings, self._application_id)):
            raise taken_over(self._application_id)
        self._begin()

    def _begin(self) -> None:
        """Starts the query where the last commit left off."""
        assert self._session is not None
        if self._runner is not None:
            self._runner.end()
        self._let_go()
        exactly_once = self._config.processing_guarantee == EXACTLY_ONCE_V2
        kind = TransactionalCommitter if exactly_once else PlainCommitter
        self._committer = kind(self._settings, self._application_id)
        runner = BatchRunner(self._program, self._session, self._committer, self._files, self._on_progress)
        # The user's own go before what sees to it that an absent Kafka is noticed.
        options = {**_SOURCE, **self._settings.spark(), **source_options(self._config.spark)}
        frame = read_stream(self._session, self._settings, self._layout, options)
        gate = Gate(runner.run)
        interval_ms = self._config.commit_interval_ms
        with self._starting:
            if self._stopping:
                raise Stopping("the application is told to stop")
            self._runner = runner
            self._query = start_query(frame, runner, gate.run, self._checkpoint, self._application_id, interval_ms)
            self._gate = gate

    def await_end(self) -> Exception | None:
        """Waits until the query ends; answers with what made it fail."""
        assert self._query is not None and self._runner is not None
        ended: Exception | None = None
        try:
            self._query.awaitTermination()
        except Exception as error:
            ended = error
        failure = self._runner.failure or ended
        return None if failure is None else self.cause_of(failure)

    def cause_of(self, error: Exception) -> Exception:
        """The error that a user can do something about."""
        return cause_of(error, self._state_dir)

    def await_kafka(self, given_up: Callable[[], bool]) -> bool:
        """Waits until Kafka answers; False if it was given up before."""
        return await_kafka(self._settings, given_up)

    @property
    def bootstrap_servers(self) -> str:
        """Where Kafka is."""
        return self._settings.bootstrap_servers

    @property
    def is_active(self) -> bool:
        """Whether the query runs."""
        return self._query is not None and bool(self._query.isActive)

    def process_all_available(self) -> None:
        """Waits until everything that is in the source topics now has been processed."""
        assert self._query is not None
        self._query.processAllAvailable()

    def stop(self) -> None:
        """Ends the query after the batch that runs, if that takes no longer than it may."""
        with self._starting:
            self._stopping = True
        if self._query is None or self._gate is None:
            return
        deadline = time.monotonic() + _LAST_BATCH_SECONDS
        if not self._gate.close(_LAST_BATCH_SECONDS):
            logger.warning("the batch takes too long; it is done again at the next start")
        if self._runner is not None:
            self._runner.end(max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(*_NO_JVM):
            self._query.stop()

    def close(self) -> None:
        """Ends everything."""
        self.stop()
        self._let_go()
        if self._session is not None and self._owns_session:
            with contextlib.suppress(*_NO_JVM):
                self._session.stop()

    def _let_go(self) -> None:
        """Closes the connections of the last query."""
        committer, self._committer = self._committer, None
        if committer is not None:
            committer.close()

    def _make_looped_topics(self, plan: PartitionPlan, layout: Layout) -> None:
        specs = repartition_topics(self._application_id, plan, self._config.replication_factor)
        Topics(self._settings).ensure(spec for spec in specs if spec.name in layout.looped)


def spark_log_level() -> str:
    """The level of Spark's log: a step quieter than this program's own, as Spark has much to say."""
    return _SPARK_LEVELS.get(logging.getLogger(__name__).getEffectiveLevel(), "ERROR")
