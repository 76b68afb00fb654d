"""The streaming query of an application: each micro-batch runs every task once and is committed as a whole."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from headrace.kafka.clients import ClientSettings
from headrace.record import NO_HEADERS
from headrace.spark.checkpoint import EMPTY, Manifest, StateFiles
from headrace.spark.commit import Committed, Output, TransactionalCommitter
from headrace.spark.layout import Layout
from headrace.spark.rows import REPORT, SPARK_SCHEMA, STATE, TICK, read_headers
from headrace.spark.worker import Batch, Program, Report, stage_function
from headrace.topology import Topology
from headrace.topology.nodes import SourceNode

logger = logging.getLogger(__name__)

_STALE = "StaleCopyError"


@dataclass(frozen=True)
class BatchProgress:
    """What a batch did."""

    batch: int
    records: int
    outputs: int
    dropped: Mapping[str, int]
    stores: Mapping[str, int]
    seconds: float


class BatchRunner:
    """Runs the batches of one query, one after the other."""

    def __init__(
        self,
        program: Program,
        session: SparkSession,
        committer: TransactionalCommitter,
        files: StateFiles,
        on_progress: Callable[[BatchProgress], None],
    ) -> None:
        self._program = program
        self._layout = program.layout
        self._pickled = cloudpickle.dumps(program)
        self._program_id = uuid.uuid4().hex
        self._session = session
        self._committer = committer
        self._files = files
        self._on_progress = on_progress
        self._committed = committer.committed()
        self._state = self._load_state()
        self._stores: dict[str, dict[str, int]] = {}
        self._slots = slots_for(session, self._layout.width)
        self._ticking = False
        """Whether tasks have wall-clock schedules, and so must run without records too."""
        self.query_id = ""

    def run(self, frame: DataFrame, number: int) -> None:
        """Runs a batch to its commit, unless it is committed already."""
        if number <= self._committed.batch:
            logger.info("batch %d is committed already", number)
            return
        started = time.perf_counter()
        table = self._compute(frame, number)
        outputs, changes, reports = _sort_out(table)
        self._ticking = self._ticking or any(report.punctuates for report in reports)
        offsets = {(topic, report.partition): offset for report in reports for topic, offset in report.offsets.items()}
        versions = {report.task: report.version for report in reports if report.version}
        manifest = self._files.prepare(self._state, number, changes, versions)
        committed = Committed(number, manifest.token, self.query_id)
        self._committer.commit(outputs, committed, offsets)
        self._state, self._committed = manifest, committed
        self._files.clean(manifest)
        self._tell(number, reports, len(outputs), time.perf_counter() - started)

    def _compute(self, frame: DataFrame, number: int) -> pa.Table:
        clock = int(time.time() * 1000)
        rebuild: dict[str, bytes] = {}
        while True:
            versions = self._state.versions
            batch = Batch(self._pickled, self._program_id, number, clock, versions, rebuild)
            try:
                return self._plan(frame, batch).toArrow()
            except Exception as error:
                if _STALE not in str(error) or rebuild:
                    raise
                logger.info("working copies are rebuilt from the checkpoint")
                rebuild = self._files.read(self._state)

    def _plan(self, frame: DataFrame, batch: Batch) -> DataFrame:
        """The stages of a batch: Kafka's rows, then each stage behind a shuffle where it needs one."""
        rows = self._addressed(frame)
        for stage in range(len(self._layout.stages)):
            if stage or self._needs_shuffle():
                rows = rows.repartition(self._layout.width, self._slot(F.col("partition")))
            rows = rows.mapInArrow(stage_function(batch, stage), SPARK_SCHEMA)
        return rows

    def _addressed(self, frame: DataFrame) -> DataFrame:
        """Kafka's rows with the sub-topology that reads each; rows of global tables for every task."""
        layout = self._layout
        columns = [
            "partition",
            "topic",
            "offset",
            F.unix_millis("timestamp").alias("timestamp"),
            "key",
            "value",
            "headers",
        ]
        readers = F.create_map(*[F.lit(item) for pair in layout.readers.items() for item in pair])
        local = frame.filter(~F.col("topic").isin(*layout.global_topics)) if layout.global_topics else frame
        rows = local.select(readers[F.col("topic")].alias("destination"), *columns)
        if layout.global_topics:
            everywhere = F.explode(
                F.array(
                    *[
                        F.struct(F.lit(s).alias("s"), F.lit(p).alias("p"))
                        for s, n in layout.tasks.items()
                        for p in range(n)
                    ]
                )
            )
            shared = frame.filter(F.col("topic").isin(*layout.global_topics)).withColumn("task", everywhere)
            copies = shared.select(
                F.col("task.s").alias("destination"), F.col("task.p").cast("int").alias("partition"), *columns[1:]
            )
            rows = rows.unionByName(copies)
        if self._ticking:
            rows = rows.unionByName(self._ticks())
        return rows

    def _ticks(self) -> DataFrame:
        rows = [
            (task, partition, TICK, -1, 0, None, None, None)
            for task, count in self._layout.tasks.items()
            for partition in range(count)
        ]
        return self._session.createDataFrame(rows, SPARK_SCHEMA)

    def _needs_shuffle(self) -> bool:
        """Whether rows of one task can come from several of the source's partitions."""
        layout = self._layout
        first = layout.stages[0]
        topics = [group for topic, group in layout.readers.items() if group in first and topic not in layout.shuffled]
        return bool(layout.global_topics) or self._ticking or len(topics) != len(set(topics))

    def _slot(self, partition: Any) -> Any:
        """A number whose hash puts partition n of the topics into partition n of the shuffle."""
        return F.array(*[F.lit(slot) for slot in self._slots])[partition]

    def _load_state(self) -> Manifest:
        committed = self._committed
        if committed.batch < 0:
            return EMPTY
        return self._files.load(committed.batch, committed.token) or EMPTY

    def _tell(self, number: int, reports: list[Report], outputs: int, seconds: float) -> None:
        dropped: dict[str, int] = {}
        for report in reports:
            for reason, count in report.dropped.items():
                dropped[reason] = dropped.get(reason, 0) + count
            self._stores[report.task] = report.stores
        stores: dict[str, int] = {}
        for counts in self._stores.values():
            for store, count in counts.items():
                stores[store] = stores.get(store, 0) + count
        records = sum(report.records for report in reports)
        self._on_progress(BatchProgress(number, records, outputs, dropped, stores, seconds))


def _sort_out(table: pa.Table) -> tuple[list[Output], dict[str, bytes], list[Report]]:
    """The results of a batch: records to write, changes by task, and reports."""
    outputs: list[Output] = []
    changes: dict[str, bytes] = {}
    reports: list[Report] = []
    for batch in table.to_batches():
        headers = read_headers(batch.column("headers")) or [NO_HEADERS] * batch.num_rows
        columns = [batch.column(name).to_pylist() for name in ("topic", "partition", "key", "value", "timestamp")]
        for output in map(Output._make, zip(*columns, headers, strict=True)):
            if output.topic == STATE:
                assert output.key is not None and output.value is not None
                changes[output.key.decode()] = output.value
            elif output.topic == REPORT:
                assert output.value is not None
                reports.append(msgspec.json.decode(output.value, type=Report))
            else:
                outputs.append(output)
    return outputs, changes, reports


def slots_for(session: SparkSession, width: int) -> list[int]:
    """For each partition of a shuffle, a number that Spark's hash puts there."""
    found: dict[int, int] = {}
    start = 0
    while len(found) < width:
        size = 64 * width
        frame = session.range(start, start + size).select(
            F.col("id").cast("int").alias("slot"), F.pmod(F.hash(F.col("id").cast("int")), F.lit(width)).alias("place")
        )
        for row in frame.collect():
            found.setdefault(row.place, row.slot)
        start += size
    return [found[place] for place in range(width)]


def read_stream(
    session: SparkSession, settings: ClientSettings, topology: Topology, layout: Layout, options: Mapping[str, str]
) -> DataFrame:
    """Kafka's rows as a stream: of all topics that tasks read, and of those that loop."""
    topics = [topic for topic in layout.readers if topic not in layout.shuffled]
    names = [*topics, *layout.global_topics]
    reader = session.readStream.format("kafka").options(**settings.spark())
    patterns = [n.pattern.pattern for n in topology.nodes.values() if isinstance(n, SourceNode) and n.pattern]
    if patterns:
        escaped = [name.replace(".", "\\.") for name in names]
        reader = reader.option("subscribePattern", "|".join([*escaped, *patterns]))
    else:
        reader = reader.option("subscribe", ",".join(names))
    defaults = {
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": "400000",
        "kafka.max.poll.records": "20000",
        "kafka.max.partition.fetch.bytes": "8388608",
        # A fetch that is waiting when a batch ends would hold up the next batch's.
        "kafka.fetch.max.wait.ms": "10",
        "kafka.isolation.level": "read_committed",
    }
    return reader.options(**{**defaults, **options}).load()


def start_query(
    frame: DataFrame, runner: BatchRunner, checkpoint: str, name: str, interval_ms: int | None
) -> StreamingQuery:
    """Starts the query; the runner's batches are its micro-batches."""
    writer = frame.writeStream.foreachBatch(runner.run).option("checkpointLocation", checkpoint).queryName(name)
    if interval_ms is not None:
        writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
    query = writer.start()
    runner.query_id = str(query.id)
    return query


def checkpoint_paths(state_dir: Path, application_id: str) -> tuple[str, Path]:
    """Where Spark's checkpoint and the state files are, below the state directory."""
    base = state_dir / "checkpoints" / application_id
    return str(base / "spark"), base / "state"
