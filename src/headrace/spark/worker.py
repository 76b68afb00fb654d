"""What runs in Spark's Python workers: the tasks of one stage, for one partition of one batch."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast, TaskContext, cloudpickle

from headrace.config import StreamsConfig
from headrace.errors import StreamsError
from headrace.kafka.clients import ClientSettings
from headrace.record import NO_HEADERS, Headers
from headrace.serdes.hashing import partition_for_key
from headrace.spark.layout import Layout
from headrace.spark.origins import merge_origins
from headrace.spark.reader import KafkaReader, reader_for
from headrace.spark.recent_changes import Steps, way
from headrace.spark.rows import (
    ANY_PARTITION,
    DRIVER,
    REPORT,
    ROWS_IN_PARCEL,
    STALE,
    STATE,
    Parcel,
    Row,
    RowWriter,
    read_parcels,
)
from headrace.spark.source import Range
from headrace.spark.working_copy import NOTHING, StaleCopyError, WorkingCopy
from headrace.state.boot import boot_name
from headrace.state.memory import MemoryStore
from headrace.state.overlay import OverlayStore
from headrace.task.record_queue import RecordQueue
from headrace.task.task import Task
from headrace.timestamps import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    WallclockTimestampExtractor,
    extractor_of,
)
from headrace.topology import Topology
from headrace.topology.nodes import ProcessorNode, SourceNode
from headrace.topology.stores import StoreSpec

TASK_FACTS = "$task"
"""The store that keeps what a task must know beside its stores."""
_SNAPSHOT = "snapshot"
_ORIGIN_SHIFT = 34
"""The bits of a shuffled row's number that count the rows of its origin."""
_TIMELESS = (FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, WallclockTimestampExtractor)
"""Timestamp extractors that do not look at the partition's time."""


@dataclass(frozen=True)
class Program:
    """What an application runs, the same in every batch."""

    topology: Topology
    config: StreamsConfig
    settings: ClientSettings
    layout: Layout
    application_id: str
    copies: str
    """The directory of the working copies; none on a cluster, where each executor has its own."""

    @property
    def skips_lost(self) -> bool:
        """Whether records that Kafka has deleted before they were read are done without."""
        given = {name.lower(): str(value).lower() for name, value in self.config.spark.items()}
        return given.get("failondataloss") == "false"


@dataclass(frozen=True)
class Batch:
    """One run of one batch."""

    program: bytes
    """The `Program`, pickled once."""
    program_id: str
    number: int
    clock: int
    """The wall clock of the batch in milliseconds: the same in every attempt."""
    versions: dict[str, str]
    """By task, the version its stores must stand at."""
    rebuild: Mapping[str, Broadcast[bytes]]
    """By task, its whole state, where a working copy was found stale."""
    recent: tuple[Broadcast[Steps], ...] = ()
    """What the last batches changed, oldest first."""
    reads: Mapping[str, tuple[Range, ...]] = field(default_factory=dict)
    """By task, what it is to read from Kafka."""
    global_reads: tuple[Range, ...] = ()
    """What every task is to read for its global tables."""
    due: frozenset[str] = frozenset()
    """Tasks to run even if there is nothing to read, as a punctuation is due."""


class Report(msgspec.Struct):
    """What a task tells the driver about a batch."""

    task: str
    partition: int
    version: str
    records: int
    """How many records it read from Kafka."""
    offsets: dict[str, int]
    """By topic that Kafka holds, the next offset to read."""
    dropped: dict[str, int]
    stores: dict[str, int]
    next_punctuation: int | None
    """When the task's next wall-clock punctuation is due, in milliseconds."""


_programs: dict[str, Program] = {}


def program_of(batch: Batch) -> Program:
    """The program, unpickled once in each worker process."""
    program = _programs.get(batch.program_id)
    if program is None:
        _programs.clear()
        program = _programs[batch.program_id] = cloudpickle.loads(batch.program)
    return program


def stage_function(batch: Batch, stage: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark runs for each partition of a stage."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from StageRun(batch, stage, context.partitionId()).run(batches)

    return run


def no_tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A stage without tasks; that a worker has imported this module is all there is to it."""
    for _ in batches:
        yield from RowWriter().batches()


class StageRun:
    """The tasks of a stage that have the same partition."""

    def __init__(self, batch: Batch, stage: int, partition: int) -> None:
        self._batch = batch
        self._program = program_of(batch)
        self._stage = frozenset(self._program.layout.stages[stage])
        self._is_first = stage == 0
        self._partition = partition
        self._runs: dict[int, TaskRun] = {}
        self._rows = RowWriter()

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Takes the parcels of this stage's tasks, passes the others on, then runs the tasks and gives their rows."""
        spoiled = False
        for batch in batches:
            if self._is_first:
                continue  # nothing but what has Spark run this partition
            mine = pc.is_in(batch.column("destination"), pa.array(sorted(self._stage), pa.int32()))
            others = batch.filter(pc.invert(mine))
            if others.num_rows:
                spoiled = spoiled or pc.any(pc.equal(others.column("topic"), STALE)).as_py()
                yield others
            for parcel in read_parcels(batch.filter(mine)):
                self._task(parcel.destination).parcels.setdefault(parcel.topic, []).append(parcel)
        if spoiled:
            return
        for subtopology in self._stage:
            if self._has_to_run(subtopology):
                self._task(subtopology)
        for subtopology in sorted(self._runs):
            self._runs[subtopology].finish()
            yield from self._rows.batches()

    def _has_to_run(self, subtopology: int) -> bool:
        """Whether a task has to run, parcels or not."""
        if self._partition >= self._program.layout.tasks[subtopology]:
            return False
        name = f"{subtopology}_{self._partition}"
        return bool(self._batch.global_reads) or name in self._batch.reads or name in self._batch.due

    def _task(self, subtopology: int) -> TaskRun:
        run = self._runs.get(subtopology)
        if run is None:
            run = self._runs[subtopology] = TaskRun(
                self._program, self._batch, subtopology, self._partition, self._rows
            )
        return run


class TaskRun:
    """One task in one batch: its records, its working copy, its results."""

    def __init__(self, program: Program, batch: Batch, subtopology: int, partition: int, rows: RowWriter) -> None:
        self.name = f"{subtopology}_{partition}"
        self.parcels: dict[str, list[Parcel]] = {}
        """What other tasks have sent it, by topic."""
        self._reads = batch.reads.get(self.name, ())
        self._records = 0
        self._program = program
        self._batch = batch
        self._partition = partition
        self._out = rows
        self._results: dict[str, list[Row]] = {}
        """What the driver is to write, by topic."""
        layout = program.layout
        self._shuffled = {
            topic: [rows.place(layout.readers[topic], each, topic) for each in range(layout.partitions[topic])]
            for topic in layout.shuffled
        }
        """What tasks of later stages are to read, by topic and partition."""
        self._largest_sent = program.settings.largest_record
        self._sent = 0
        self._origin = subtopology << 50 | partition << _ORIGIN_SHIFT
        group = next(g for g in program.topology.subtopologies() if g.id == subtopology)
        self._nodes = group.nodes
        self._stores = _stores_of(program.topology, group.nodes)
        self._keeps_facts = (
            bool(self._stores)
            or subtopology in program.layout.scheduling
            or _asks_for_partition_time(program, group.nodes)
        )

    def finish(self) -> None:
        """Runs the records through the task and hands out what results."""
        if not self._keeps_facts:
            self._run({TASK_FACTS: OverlayStore(MemoryStore())})
            return
        before = self._batch.versions.get(self.name, NOTHING)
        copy = WorkingCopy(
            copies_directory(self._program) / self.name, (*(store.name for store in self._stores), TASK_FACTS)
        )
        try:
            self._bring(copy, before)
            token = f"{self._batch.number}-{uuid.uuid4().hex}"
            with copy.read() as overlays:
                self._run(overlays, token)
                changes = copy.changes()
            copy.hold(token, before, changes)
            self._tell(STATE, changes)
        except StaleCopyError:
            self._tell_stale()
        finally:
            copy.close()

    def _bring(self, copy: WorkingCopy, version: str) -> None:
        rebuild = self._batch.rebuild.get(self.name)
        copy.bring_to(
            version,
            None if rebuild is None else rebuild.value,
            lambda start, end: way(self._batch.recent, self.name, start, end),
        )

    def _tell_stale(self) -> None:
        """Asks the driver for the task's state, and keeps later stages from running on half of a batch."""
        for partition in range(self._program.layout.width):
            self._out.place(DRIVER, partition, STALE).append((0, 0, self.name.encode(), None, NO_HEADERS))

    def _run(self, overlays: dict[str, OverlayStore], version: str = NOTHING) -> None:
        program = self._program
        task = Task(
            program.topology,
            program.config,
            application_id=program.application_id,
            ordered=lambda spec: overlays[spec.name],
            send=self._send,
            clock=lambda: self._batch.clock,
            task_id=self.name,
            partition=self._partition,
            nodes=self._nodes,
            partitions=lambda topic: program.layout.partitions.get(topic, 1),
            queue_per_topic=True,
            largest_record=self._largest_record,
        )
        facts = overlays[TASK_FACTS]
        snapshot = facts.meta_get(_SNAPSHOT)
        if snapshot is not None:
            task.restore(msgspec.json.decode(snapshot))
        self._feed(task)
        task.punctuate_system_time()
        task.commit()
        facts.meta_put(_SNAPSHOT, msgspec.json.encode(task.snapshot()))
        task.close()
        report = Report(
            self.name,
            self._partition,
            version,
            self._records,
            {each.topic: each.end for each in self._reads},
            dict(task.dropped),
            {store.name: len(overlays[store.name]) for store in self._stores if not store.is_global},
            task.next_system_punctuation,
        )
        self._tell(REPORT, msgspec.json.encode(report))

    def _feed(self, task: Task) -> None:
        """Global rows first, then all others: each topic by its offsets, the topics merged by time."""
        for each in self._batch.global_reads:
            queue = task.global_queue_of(each.topic)
            assert queue is not None
            for row in chain.from_iterable(self._reader.read(each)):
                task.update_global(queue, (each.topic, each.partition, *row))
        pieces = {**self._received(), **self._read()}
        sources = {topic: chain.from_iterable(each) for topic, each in pieces.items()}
        if len(sources) == 1:
            for topic, rows in sources.items():
                task.process_all(_queue_of(task, topic), topic, self._partition, rows)
            return
        for topic, rows in sorted(sources.items(), key=_topic):
            queue = _queue_of(task, topic)
            for row in rows:
                task.add(queue, (topic, self._partition, *row))
        while task.process_one():
            task.punctuate_stream_time()

    def _read(self) -> dict[str, Iterator[list[Row]]]:
        """What Kafka has for the task, by topic, in the order of the offsets."""
        by_topic: dict[str, list[Range]] = {}
        for each in self._reads:
            by_topic.setdefault(each.topic, []).append(each)
        return {topic: self._counted(ranges) for topic, ranges in by_topic.items()}

    def _counted(self, ranges: list[Range]) -> Iterator[list[Row]]:
        for each in ranges:
            for rows in self._reader.read(each):
                self._records += len(rows)
                yield rows

    def _received(self) -> dict[str, Iterator[list[Row]]]:
        """What other tasks have sent, by topic, merged by time."""
        return {
            topic: merge_origins([_opened(list(each)) for _, each in groupby(sorted(parcels, key=_first), key=_origin)])
            for topic, parcels in self.parcels.items()
        }

    @cached_property
    def _reader(self) -> KafkaReader:
        program = self._program
        group, skip_lost = program.application_id, program.skips_lost
        return reader_for(self._batch.program_id, program.settings, group, skip_lost=skip_lost)

    def _send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        partition: int | None,
    ) -> None:
        places = self._shuffled.get(topic)
        if places is None:
            rows = self._results.get(topic)
            if rows is None:
                rows = self._results[topic] = self._out.place(DRIVER, self._partition, topic)
            number = ANY_PARTITION if partition is None else partition
        else:
            if partition is None:
                partition = _partition_of(key, len(places), self._sent)
            elif partition >= len(places):
                raise StreamsError(
                    f"The partitioner chose partition {partition} of topic {topic}, which has {len(places)}"
                )
            rows = places[partition]
            self._sent += 1
            number = self._origin | self._sent
        rows.append((number, timestamp, key, value, headers))
        if len(rows) >= ROWS_IN_PARCEL:
            self._out.pack()

    def _largest_record(self, topic: str) -> int:
        """How large a record for the topic may be; what is shuffled is not sent."""
        return sys.maxsize if topic in self._shuffled else self._largest_sent

    def _tell(self, what: str, content: bytes) -> None:
        """Sends the driver something about the task."""
        self._out.place(DRIVER, self._partition, what).append((0, 0, self.name.encode(), content, NO_HEADERS))


def _opened(parcels: Iterable[Parcel]) -> Iterator[list[Row]]:
    return (parcel.open() for parcel in parcels)


def _origin(parcel: Parcel) -> int:
    return parcel.first >> _ORIGIN_SHIFT


def _queue_of(task: Task, topic: str) -> RecordQueue:
    queue = task.queue_of(topic)
    assert queue is not None
    return queue


def _asks_for_partition_time(program: Program, nodes: tuple[str, ...]) -> bool:
    """Whether a timestamp extractor may want the time of the batches before."""
    sources = [node for name in nodes if isinstance(node := program.topology.nodes[name], SourceNode)]
    used = (extractor_of(node.timestamp_extractor or program.config.default_timestamp_extractor) for node in sources)
    return any(type(extractor) not in _TIMELESS for extractor in used)


def _stores_of(topology: Topology, nodes: tuple[str, ...]) -> list[StoreSpec]:
    chosen = {*nodes, *topology.global_nodes}
    used = {
        store for name in chosen if isinstance(node := topology.nodes[name], ProcessorNode) for store in node.stores
    }
    return [spec for name, spec in topology.stores.items() if name in used]


def _partition_of(key: bytes | None, count: int, turn: int) -> int:
    return turn % count if key is None else partition_for_key(key, count)


def _first(parcel: Parcel) -> int:
    return parcel.first


def _topic(source: tuple[str, Iterator[Row]]) -> str:
    return source[0]


def copies_directory(program: Program) -> Path:
    """Where this worker keeps working copies: beside those of its host, or, on a cluster, of its executor."""
    if program.copies:
        return Path(program.copies)
    disks = os.environ["SPARK_LOCAL_DIRS"].split(",")
    return Path(disks[0], "headrace", program.application_id)


def host_directory(state_dir: str, application_id: str) -> str:
    """Where working copies of this boot of the machine are: copies of another one may be torn."""
    return os.path.join(state_dir, "copies", f"{application_id}-{boot_name()}")
