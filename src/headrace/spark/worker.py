"""What runs in Spark's Python workers: the tasks of one stage, for one partition of one batch."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, chain, groupby, pairwise
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast, cloudpickle

from headrace.config import StreamsConfig
from headrace.errors import StreamsError
from headrace.record import NO_HEADERS, Headers
from headrace.serdes.hashing import partition_for_key
from headrace.spark.layout import Layout
from headrace.spark.recent_changes import Steps, way
from headrace.spark.rows import (
    ANY_PARTITION,
    DRIVER,
    REPORT,
    STALE,
    STATE,
    TICK,
    Parcel,
    Row,
    RowWriter,
    read_kafka_rows,
    read_parcels,
)
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
    layout: Layout
    application_id: str
    copies: str
    """The directory of the working copies; none on a cluster, where each executor has its own."""


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
        yield from StageRun(batch, stage).run(batches)

    return run


class StageRun:
    """The tasks of a stage that meet in one partition."""

    def __init__(self, batch: Batch, stage: int) -> None:
        self._batch = batch
        self._program = program_of(batch)
        self._layout = self._program.layout
        self._stage = frozenset(self._layout.stages[stage])
        self._reads_kafka = stage == 0
        self._runs: dict[str, TaskRun] = {}
        self._rows = RowWriter()

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Takes the rows of this stage's tasks, passes the others on, then runs the tasks and gives their rows."""
        spoiled = False
        for batch in batches:
            if self._reads_kafka:
                self._sort(batch)
                continue
            mine = pc.is_in(batch.column("destination"), pa.array(sorted(self._stage), pa.int32()))
            others = batch.filter(pc.invert(mine))
            if others.num_rows:
                spoiled = spoiled or pc.any(pc.equal(others.column("topic"), STALE)).as_py()
                yield others
            for parcel in read_parcels(batch.filter(mine)):
                self._take(parcel)
        yield from self._rows.batches()
        if spoiled:
            return
        for name in sorted(self._runs, key=_task_order):
            self._runs[name].finish()
            yield from self._rows.batches()

    def _sort(self, batch: pa.RecordBatch) -> None:
        """Takes the rows of this stage's tasks; those of a later one travel on."""
        for parcel in read_kafka_rows(batch):
            if parcel.destination in self._stage:
                self._take(parcel)
            else:
                self._rows.place(parcel.destination, parcel.partition, parcel.topic).extend(parcel.open())

    def _take(self, parcel: Parcel) -> None:
        run = self._runs.get(f"{parcel.destination}_{parcel.partition}")
        if run is None:
            run = self._open(parcel.destination, parcel.partition, parcel.topic)
        run.parcels.setdefault(parcel.topic, []).append(parcel)

    def _open(self, subtopology: int, partition: int, topic: str) -> TaskRun:
        check_partition(self._layout, subtopology, partition, topic)
        run = TaskRun(self._program, self._batch, subtopology, partition, self._rows)
        self._runs[run.name] = run
        return run


class TaskRun:
    """One task in one batch: its records, its working copy, its results."""

    def __init__(self, program: Program, batch: Batch, subtopology: int, partition: int, rows: RowWriter) -> None:
        self.name = f"{subtopology}_{partition}"
        self.parcels: dict[str, list[Parcel]] = {}
        """What it is to read, by topic."""
        self._program = program
        self._batch = batch
        self._partition = partition
        self._subtopology = subtopology
        self._out = rows
        self._routes: dict[str, Callable[[Row], None]] = {}
        self._sequence = 0
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
        read = self._parcels_of_kafka()
        report = Report(
            self.name,
            self._partition,
            version,
            sum(parcel.count for parcel in read),
            {parcel.topic: parcel.last + 1 for parcel in read},
            dict(task.dropped),
            {store.name: len(overlays[store.name]) for store in self._stores if not store.is_global},
            task.next_system_punctuation,
        )
        self._tell(REPORT, msgspec.json.encode(report))

    def _parcels_of_kafka(self) -> list[Parcel]:
        """What was read from the task's own source topics, and not from another stage."""
        layout = self._program.layout
        inner = {TICK, *layout.shuffled, *layout.global_topics}
        return sorted((p for topic in self.parcels.keys() - inner for p in self.parcels[topic]), key=_last)

    def _feed(self, task: Task) -> None:
        """Global rows first, then all others: each topic by its offsets, the topics merged by time."""
        global_topics = self._program.layout.global_topics
        for topic in sorted(self.parcels.keys() & set(global_topics)):
            queue = task.global_queue_of(topic)
            assert queue is not None
            for row in self._rows(topic):
                task.update_global(queue, (topic, self._partition, *row))
        topics = sorted(self.parcels.keys() - {TICK, *global_topics})
        queues = {topic: _queue_of(task, topic) for topic in topics}
        if len(queues) == 1:
            for topic, queue in queues.items():
                task.process_all(queue, topic, self._partition, self._rows(topic))
            return
        for topic, queue in queues.items():
            for row in self._rows(topic):
                task.add(queue, (topic, self._partition, *row))
        while task.process_one():
            task.punctuate_stream_time()

    def _rows(self, topic: str) -> Iterator[Row]:
        """The rows of a topic in the order of their numbers; those of several origins are merged by time."""
        parcels = sorted(self.parcels[topic], key=_first)
        if topic in self._program.layout.shuffled:
            return merge_origins([list(_opened(each)) for _, each in groupby(parcels, key=_origin)])
        rows = _opened(parcels)
        if any(earlier.last > later.first for earlier, later in pairwise(parcels)):
            return iter(sorted(rows, key=_number))
        return rows

    def _send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        partition: int | None,
    ) -> None:
        if topic in self._program.layout.shuffled:
            self._shuffle(topic, key, value, timestamp, headers, partition)
            return
        put = self._routes.get(topic)
        if put is None:
            put = self._routes[topic] = self._out.place(DRIVER, self._partition, topic).append
        put((ANY_PARTITION if partition is None else partition, timestamp, key, value, headers))

    def _shuffle(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        partition: int | None,
    ) -> None:
        """Sends a row to a task of a later stage."""
        layout = self._program.layout
        chosen = _partition_of(key, layout.partitions[topic], self._sequence) if partition is None else partition
        self._sequence += 1
        order = self._subtopology << 50 | self._partition << _ORIGIN_SHIFT | self._sequence
        self._out.place(layout.readers[topic], chosen, topic).append((order, timestamp, key, value, headers))

    def _tell(self, what: str, content: bytes) -> None:
        """Sends the driver something about the task."""
        self._out.place(DRIVER, self._partition, what).append((0, 0, self.name.encode(), content, NO_HEADERS))


def merge_origins(origins: list[list[Row]]) -> Iterator[Row]:
    """The rows of all origins, each in its own order: of those that are next, the one with the least timestamp first.

    A batch brings the rows of one origin after those of another. Read like that, the first would move the time on and
    make the others late.
    """
    if len(origins) == 1:
        return iter(origins[0])
    rows = list(chain.from_iterable(origins))
    # Who comes late in its own origin does so right after the row that is ahead of it.
    times = [time for origin in origins for time in accumulate((row[1] for row in origin), max)]
    return map(rows.__getitem__, sorted(range(len(rows)), key=times.__getitem__))


def _opened(parcels: Iterable[Parcel]) -> Iterator[Row]:
    return chain.from_iterable(parcel.open() for parcel in parcels)


def _origin(parcel: Parcel) -> int:
    return parcel.first >> _ORIGIN_SHIFT


def check_partition(layout: Layout, subtopology: int, partition: int, topic: str) -> None:
    """Raises where no task is there for a partition."""
    tasks = layout.tasks[subtopology]
    if partition >= tasks:
        raise StreamsError(
            f"Partition {partition} of topic {topic} has no task: sub-topology {subtopology} runs {tasks}, as many as "
            "its largest topic had partitions when the application was started. An application without stores "
            "need only be started again. With stores, where keys would move between tasks, give it a topic of at most "
            f"{tasks} partitions, another application_id, or take it back to the beginning with: headrace reset"
        )


def _queue_of(task: Task, topic: str) -> RecordQueue:
    queue = task.queue_of(topic)
    if queue is None:
        raise StreamsError(
            f"Topic {topic} fits a pattern of the topology in Java, which looks for topics, but not in Python. "
            "Write the pattern in a way that means the same in both"
        )
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


def _last(parcel: Parcel) -> int:
    return parcel.last


def _number(row: Row) -> int:
    return row[0]


def _task_order(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("_"))


def copies_directory(program: Program) -> Path:
    """Where this worker keeps working copies: beside those of its host, or, on a cluster, of its executor."""
    if program.copies:
        return Path(program.copies)
    disks = os.environ["SPARK_LOCAL_DIRS"].split(",")
    return Path(disks[0], "headrace", program.application_id)


def host_directory(state_dir: str, application_id: str) -> str:
    """Where working copies of this boot of the machine are: copies of another one may be torn."""
    return os.path.join(state_dir, "copies", f"{application_id}-{boot_name()}")
