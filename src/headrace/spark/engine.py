"""The engine: makes topics and Spark ready, and keeps the loop of batches going."""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import wait
from pathlib import Path

from pyspark import cloudpickle

from headrace.config import EXACTLY_ONCE_V2, StreamsConfig
from headrace.errors import ConfigError, EnvironmentFailed, FencedError, HeadraceError, KafkaAway, SparkEnded
from headrace.kafka.absence import await_kafka
from headrace.kafka.clients import ClientSettings
from headrace.kafka.internal_topics import check_access, make_topics, plan_topics
from headrace.kafka.partitions import PartitionPlan
from headrace.kafka.topics import Topics, changelog_topics, repartition_topics
from headrace.presence import state_directory
from headrace.spark.batches import BatchLoop, LoopEnded
from headrace.spark.commit import PlainCommitter, TransactionalCommitter
from headrace.spark.commit_record import (
    check_begin,
    check_changelogs,
    check_topics,
    check_topology,
    last_commit,
    taken_over,
)
from headrace.spark.failures import cause_of
from headrace.spark.fingerprint import fingerprint
from headrace.spark.job import Jobs
from headrace.spark.layout import Layout, lay_out
from headrace.spark.pace import Pace
from headrace.spark.progress import BatchProgress
from headrace.spark.runtime import NO_JVM, SparkRuntime
from headrace.spark.session import check_options, skips_lost
from headrace.spark.worker import Program, host_directory
from headrace.state.boot import remove_earlier_boots
from headrace.topology import Topology

logger = logging.getLogger(__name__)

_LAST_BATCH_SECONDS = 8.0
"""How long a batch may take to end when the application is told to stop."""
_BEGIN_SECONDS = 15.0
"""How long the first commit of another process may be under way."""
_LOOK_SECONDS = 0.1
_TOLD_TO_STOP = "the application is told to stop"


class Stopping(HeadraceError):
    """No batch is begun any more."""


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
        check_options(config.spark)
        self._topology = topology
        self._config = config
        self._application_id = config.application_id
        self._settings = ClientSettings.of(config, bootstrap_servers)
        self._pace = Pace(config.spark)
        self._state_dir = state_directory(config)
        self._on_progress = on_progress
        self._spark = SparkRuntime(config.application_id, config)
        self._jobs: Jobs | None = None
        self._loop: BatchLoop | None = None
        self._stopping = False
        self._starting = threading.Lock()

    def warm_up(self) -> None:
        """Has Spark and its workers before they are needed."""
        self._spark.warm_up()

    def start(self) -> None:
        """Checks topics and the last commit, then starts the loop; after a stop it may be started again.

        Spark takes seconds to start. Meanwhile Kafka answers the questions, and the first batches run without it.
        """
        with self._starting:
            self._stopping = False
        self._prepare()
        # To begin is to stop every other process: not before it is known that this one can run.
        self._spark.check_java()
        self._begin()
        self._await_spark()
        with self._starting:
            if self._stopping:
                raise Stopping(_TOLD_TO_STOP)

    def _await_spark(self) -> None:
        """Waits for Spark, or until the loop has failed without it: whoever watches over the loop finds out."""
        loop, starting = self._loop, self._spark.start()
        # One that is gone was closed meanwhile.
        while loop is not None and loop.is_alive and not starting.done():
            wait([starting], _LOOK_SECONDS)
        if starting.done():
            starting.result()

    def _prepare(self) -> None:
        plan = plan_topics(self._topology, self._config, self._settings)
        check_access(self._topology, self._config, self._settings, plan)
        worker = self._spark.first_worker()
        try:
            self._spark.start()
            self._print = fingerprint(self._topology, plan)
            self._check_last_commit(plan)
            make_topics(self._topology, self._config, self._settings, plan)
            layout = lay_out(self._topology, plan, self._application_id, Topics(self._settings).describe())
            self._make_real_topics(plan, layout)
            program = self._program(layout, plan)
            pickled = cloudpickle.dumps(program)
            if worker is not None:
                worker.begin(pickled)
            jobs = Jobs(program, self._spark.jobs(program, pickled), worker, self._spark.hurry)
        except BaseException:
            if worker is not None:
                worker.close()
            raise
        if self._jobs is not None:
            self._jobs.close()
        self._jobs = jobs

    def _check_last_commit(self, plan: PartitionPlan) -> None:
        """Looks whether the application may go on, or begin, before anything is touched."""
        last = last_commit(self._settings, self._application_id)
        if last is None:
            changelogs = changelog_topics(self._application_id, self._topology, plan)
            try:
                check_begin(self._settings, self._application_id, [each.name for each in changelogs], plan.sources)
                return
            except EnvironmentFailed:
                # They may be another process's, which has begun a moment ago.
                last = last_commit(self._settings, self._application_id, _BEGIN_SECONDS)
                if last is None:
                    raise
        check_topology(last, self._print, self._application_id)
        check_changelogs(last.changelog_ids, Topics(self._settings).ids(last.changelog_ids))
        if not skips_lost(self._config.spark):
            check_topics(last.topic_ids, Topics(self._settings).ids(last.topic_ids))

    def _program(self, layout: Layout, plan: PartitionPlan) -> Program:
        local = self._spark.is_local
        unlogged = [name for name, spec in self._topology.stores.items() if not spec.logging and not spec.is_global]
        if unlogged and not local:
            raise ConfigError(
                f"Store {', '.join(unlogged)} has no changelog (logging=False), so its content lives on one machine, "
                f"and on {self._spark.context().master} tasks move between machines. Leave logging on."
            )
        copies = host_directory(str(self._state_dir), self._application_id) if local else ""
        if local:
            remove_earlier_boots(Path(copies).parent)
        return Program(
            self._topology,
            self._config,
            self._settings,
            layout,
            self._application_id,
            copies,
            uuid.uuid4().hex,
            {store: f"{self._application_id}-{store}-changelog" for store in plan.changelogs},
            skips_lost(self._config.spark),
        )

    def restart(self) -> None:
        """Starts the loop that failed again; FencedError if another process has gone on with it meanwhile.

        To begin is to stop every other process. Who was not there for a while must not do so without a look.
        """
        assert self._loop is not None
        self._loop.join()
        if not self._loop.may_have_made(last_commit(self._settings, self._application_id)):
            raise taken_over(self._application_id)
        self._pace.slow_down()
        if self._spark.is_lost:
            logger.warning("Spark's JVM has died; a new one is started")
            self._spark.forget()
            self._prepare()
        elif self._jobs is None or self._jobs.have_failed:
            self._prepare()
        self._begin()

    def _begin(self) -> None:
        """Starts the loop where the last commit left off."""
        assert self._jobs is not None
        exactly_once = self._config.processing_guarantee == EXACTLY_ONCE_V2
        kind = TransactionalCommitter if exactly_once else PlainCommitter
        committer = kind(self._settings, self._application_id)
        loop = BatchLoop(self._jobs.program, self._print, self._jobs, committer, self._pace, self._on_progress)
        with self._starting:
            if self._stopping:
                loop.close()
                raise Stopping(_TOLD_TO_STOP)
            before, self._loop = self._loop, loop
            loop.start()
        if before is not None:
            # librdkafka may take its time to let go of a Kafka that was away: nobody waits for it.
            threading.Thread(target=before.close, name="headrace-closing", daemon=True).start()

    def await_end(self) -> Exception | None:
        """Waits until the loop ends; returns what made it fail."""
        assert self._loop is not None
        self._loop.join()
        failure = self._loop.failure
        if failure is None:
            return None
        cause = self.cause_of(failure)
        if isinstance(cause, KafkaAway | FencedError) or not self._is_taken_over():
            return cause
        # Whatever went wrong here, as in working copies that both have used, the other process goes on with the batch.
        fenced = taken_over(self._application_id)
        fenced.__cause__ = cause
        return fenced

    def _is_taken_over(self) -> bool:
        """Whether another process has committed meanwhile."""
        assert self._loop is not None
        try:
            return not self._loop.may_have_made(last_commit(self._settings, self._application_id))
        except EnvironmentFailed:
            return False

    def cause_of(self, error: Exception) -> Exception:
        """The error that a user can do something about."""
        if self._spark.is_users_own and self._spark.is_lost:
            ended = SparkEnded(
                "The SparkContext that the application was given has ended, so the application cannot go on. Nothing "
                "that was committed is lost: start the application again with a new context."
            )
            ended.__cause__ = error
            return ended
        return cause_of(error, self._state_dir)

    def await_kafka(self, given_up: Callable[[], bool]) -> bool:
        """Waits until Kafka answers; False if it was given up before."""
        return await_kafka(self._settings, given_up)

    @property
    def bootstrap_servers(self) -> str:
        """Where Kafka is."""
        return self._settings.bootstrap_servers

    def process_all_available(self) -> None:
        """Waits until everything that is in the source topics now has been processed; LoopEnded where it is not."""
        loop = self._loop
        if loop is None:
            raise LoopEnded("No batches are run.")
        loop.process_all_available()

    def stop(self) -> None:
        """Ends the loop after the batch that runs, if that takes no longer than it may."""
        with self._starting:
            self._stopping = True
            loop = self._loop
        if loop is None:
            return
        with contextlib.suppress(*NO_JVM):
            if not loop.stop(_LAST_BATCH_SECONDS):
                logger.warning("the batch takes too long; it is done again at the next start")
        loop.join()

    def close(self) -> None:
        """Ends everything."""
        self.stop()
        self._let_go()
        if self._jobs is not None:
            with contextlib.suppress(*NO_JVM):
                self._jobs.close()
        self._spark.close()

    def _let_go(self) -> None:
        """Closes the connections of the last loop."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()

    def _make_real_topics(self, plan: PartitionPlan, layout: Layout) -> None:
        specs = repartition_topics(self._application_id, plan, self._config.replication_factor)
        Topics(self._settings).ensure(spec for spec in specs if spec.name in layout.looped | layout.spilling)
