"""The engine: makes topics, session and query ready, and keeps the query going."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from headrace.config import EXACTLY_ONCE_V2, StreamsConfig
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import default_state_dir
from headrace.kafka.partitions import PartitionPlan, plan_partitions, source_topics
from headrace.kafka.topics import Topics, TopicSpec, changelog_topics, repartition_topics
from headrace.spark.checkpoint import StateFiles
from headrace.spark.commit import COMMITS, PlainCommitter, TransactionalCommitter
from headrace.spark.compatibility import check_compatible
from headrace.spark.layout import Layout, lay_out
from headrace.spark.query import BatchProgress, BatchRunner, checkpoint_paths, read_stream, start_query
from headrace.spark.session import make_session
from headrace.spark.worker import Program, host_directory
from headrace.topology import Topology


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
        self._state_dir = default_state_dir() if config.state_dir is None else Path(config.state_dir)
        self._on_progress = on_progress
        self._session: SparkSession | None = None
        self._owns_session = False
        self._query: StreamingQuery | None = None
        self._committer: TransactionalCommitter | None = None

    def start(self) -> None:
        """Checks topics and checkpoint, then starts the query."""
        plan = self._prepare_topics()
        layout = lay_out(self._topology, plan, self._application_id)
        self._make_looped_topics(plan, layout)
        spark_checkpoint, state_files = checkpoint_paths(self._state_dir, self._application_id)
        check_compatible(state_files.parent, self._topology, plan)
        # A session of the user's own is used as it is, and stays when the application ends.
        self._owns_session = SparkSession.getActiveSession() is None
        self._session = make_session(
            self._application_id,
            threads=self._config.num_stream_threads,
            checkpoint=spark_checkpoint,
            settings=self._config.spark,
        )
        copies = host_directory(str(self._state_dir), self._application_id)
        self._program = Program(self._topology, self._config, layout, self._application_id, copies)
        self._checkpoint, self._files = spark_checkpoint, StateFiles(state_files)
        self._layout = layout
        self.restart()

    def restart(self) -> None:
        """Starts the query where the last commit left off."""
        assert self._session is not None
        if self._committer is not None:
            self._committer.close()
        exactly_once = self._config.processing_guarantee == EXACTLY_ONCE_V2
        kind = TransactionalCommitter if exactly_once else PlainCommitter
        self._committer = kind(self._settings, self._application_id)
        runner = BatchRunner(self._program, self._session, self._committer, self._files, self._on_progress)
        frame = read_stream(self._session, self._settings, self._topology, self._layout, {})
        interval_ms = self._config.commit_interval_ms
        self._query = start_query(frame, runner, self._checkpoint, self._application_id, interval_ms)

    def await_end(self) -> Exception | None:
        """Waits until the query ends; answers with what made it fail."""
        assert self._query is not None
        try:
            self._query.awaitTermination()
        except Exception as error:
            return error
        return None

    def process_all_available(self) -> None:
        """Waits until everything that is in the source topics now has been processed."""
        assert self._query is not None
        self._query.processAllAvailable()

    def stop(self) -> None:
        """Ends the query after the batch that runs."""
        if self._query is not None:
            self._query.stop()

    def close(self) -> None:
        """Ends everything."""
        self.stop()
        if self._committer is not None:
            self._committer.close()
        if self._session is not None and self._owns_session:
            self._session.stop()

    def _prepare_topics(self) -> PartitionPlan:
        topics = Topics(self._settings)
        topics.require(source_topics(self._topology))
        plan = plan_partitions(self._topology, topics.describe())
        commits = TopicSpec(
            f"{self._application_id}-{COMMITS}", 1, {"cleanup.policy": "compact"}, self._config.replication_factor
        )
        changelogs = changelog_topics(self._application_id, self._topology, plan, self._config.replication_factor)
        topics.ensure([commits, *changelogs])
        return plan

    def _make_looped_topics(self, plan: PartitionPlan, layout: Layout) -> None:
        specs = repartition_topics(self._application_id, plan, self._config.replication_factor)
        Topics(self._settings).ensure(spec for spec in specs if spec.name in layout.looped)
