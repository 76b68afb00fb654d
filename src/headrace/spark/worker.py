"""What runs in Spark's Python workers: the tasks of one stage, for one partition of one batch."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from headrace.config import StreamsConfig
from headrace.record import NO_HEADERS, Headers
from headrace.serdes.hashing import partition_for_key
from headrace.spark.layout import Layout
from headrace.spark.rows import ANY_PARTITION, DRIVER, REPORT, STATE, TICK, RowWriter, read_headers
from headrace.spark.working_copy import NOTHING, StaleCopyError, WorkingCopy
from headrace.state.memory import MemoryStore
from headrace.state.overlay import OverlayStore
from headrace.task.task import Task
from headrace.topology import Topology
from headrace.topology.nodes import ProcessorNode
from headrace.topology.stores import StoreSpec

TASK_FACTS = "$task"
"""The store that keeps what a task must know beside its stores."""
_SNAPSHOT = "snapshot"


@dataclass(frozen=True)
class Program:
    """What an application runs, the same in every batch."""

    topology: Topology
    config: StreamsConfig
    layout: Layout
    application_id: str
    copies: str
    """The directory of the working copies, on each host."""


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
    rebuild: dict[str, bytes]
    """By task, its whole state, where a working copy was found stale."""


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
    punctuates: bool
    """Whether the task has wall-clock schedules, and so must run without records too."""


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
        self._runs: dict[str, TaskRun] = {}
        self._rows = RowWriter()

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Takes the rows of this stage's tasks, passes the others on, then runs the tasks and gives their rows."""
        for batch in batches:
            mine = pc.is_in(batch.column("destination"), pa.array(sorted(self._stage), pa.int32()))
            matching = batch.filter(mine)
            if matching.num_rows < batch.num_rows:
                yield batch.filter(pc.invert(mine))
            if matching.num_rows:
                self._take(matching)
        for name in sorted(self._runs, key=_task_order):
            self._runs[name].finish()
            yield from self._rows.batches()

    def _take(self, batch: pa.RecordBatch) -> None:
        columns = [batch.column(name).to_pylist() for name in ("destination", "partition", "topic", "offset")]
        content = [batch.column(name).to_pylist() for name in ("timestamp", "key", "value")]
        headers = read_headers(batch.column("headers")) or [NO_HEADERS] * batch.num_rows
        for destination, partition, topic, offset, timestamp, key, value, header in zip(
            *columns, *content, headers, strict=True
        ):
            run = self._runs.get(f"{destination}_{partition}")
            if run is None:
                run = self._open(destination, partition)
            run.rows.append((topic, partition, offset, timestamp, key, value, header))

    def _open(self, subtopology: int, partition: int) -> TaskRun:
        run = TaskRun(self._program, self._batch, subtopology, partition, self._rows)
        self._runs[run.name] = run
        return run


class TaskRun:
    """One task in one batch: its records, its working copy, its results."""

    def __init__(self, program: Program, batch: Batch, subtopology: int, partition: int, rows: RowWriter) -> None:
        self.name = f"{subtopology}_{partition}"
        self.rows: list[tuple[Any, ...]] = []
        self._program = program
        self._batch = batch
        self._partition = partition
        self._subtopology = subtopology
        self._out = rows
        self._sequence = 0
        group = next(g for g in program.topology.subtopologies() if g.id == subtopology)
        self._nodes = group.nodes
        self._stores = _stores_of(program.topology, group.nodes)

    def finish(self) -> None:
        """Runs the records through the task and hands out what results."""
        if not self._stores:
            self._run({TASK_FACTS: OverlayStore(MemoryStore())})
            return
        before = self._batch.versions.get(self.name, NOTHING)
        copy = WorkingCopy(
            Path(self._program.copies) / self.name, (*(store.name for store in self._stores), TASK_FACTS)
        )
        try:
            try:
                copy.bring_to(before, self._batch.rebuild.get(self.name))
            except StaleCopyError as error:
                raise StaleCopyError(f"task {self.name}: {error}") from None
            token = f"{self._batch.number}-{uuid.uuid4().hex}"
            with copy.read() as overlays:
                self._run(overlays, token)
                changes = copy.changes()
            copy.hold(token, before, changes)
            self._emit(STATE, self.name.encode(), changes, 0, NO_HEADERS, 0)
        finally:
            copy.close()

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
        read = self._rows_of_kafka()
        report = Report(
            self.name,
            self._partition,
            version,
            len(read),
            {row[0]: row[2] + 1 for row in read},
            dict(task.dropped),
            {store.name: len(overlays[store.name]) for store in self._stores if not store.is_global},
            task.has_system_schedules,
        )
        self._emit(REPORT, self.name.encode(), msgspec.json.encode(report), 0, NO_HEADERS, 0)

    def _rows_of_kafka(self) -> list[tuple[Any, ...]]:
        """The rows of the task's own source topics, and not from another stage."""
        layout = self._program.layout
        inner = {TICK, *layout.shuffled, *layout.global_topics}
        return sorted((row for row in self.rows if row[0] not in inner), key=_offset)

    def _feed(self, task: Task) -> None:
        """Global rows first, then all others: each topic by its offsets, the topics merged by time."""
        global_topics = self._program.layout.global_topics
        for row in sorted((row for row in self.rows if row[0] in global_topics), key=_offset):
            queue = task.global_queue_of(row[0])
            assert queue is not None
            task.update_global(queue, row)
        rows = [row for row in self.rows if row[0] not in global_topics and row[0] != TICK]
        if any(earlier[2] > later[2] for earlier, later in pairwise(rows)):
            rows.sort(key=_offset)
        for row in rows:
            topic = row[0]
            queue = task.queue_of(topic)
            if queue is None:
                continue
            task.add(queue, row)
        while task.process_one():
            task.punctuate_stream_time()

    def _send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        partition: int | None,
    ) -> None:
        layout = self._program.layout
        if topic in layout.shuffled:
            count = layout.partitions[topic]
            chosen = partition if partition is not None else _partition_of(key, count, self._sequence)
            self._sequence += 1
            order = self._subtopology << 56 | self._partition << 40 | self._sequence
            self._out.add((layout.readers[topic], chosen, topic, order, timestamp, key, value, headers))
        else:
            self._emit(topic, key, value, timestamp, headers, ANY_PARTITION if partition is None else partition)

    def _emit(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers, partition: int
    ) -> None:
        self._sequence += 1
        self._out.add((DRIVER, partition, topic, self._sequence, timestamp, key, value, headers))


def _stores_of(topology: Topology, nodes: tuple[str, ...]) -> list[StoreSpec]:
    chosen = {*nodes, *topology.global_nodes}
    used = {
        store for name in chosen if isinstance(node := topology.nodes[name], ProcessorNode) for store in node.stores
    }
    return [spec for name, spec in topology.stores.items() if name in used]


def _partition_of(key: bytes | None, count: int, turn: int) -> int:
    return turn % count if key is None else partition_for_key(key, count)


def _offset(row: tuple[Any, ...]) -> int:
    offset: int = row[2]
    return offset


def _task_order(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("_"))


def host_directory(state_dir: str, application_id: str) -> str:
    """Where working copies of this boot of the machine are: copies of another one may be torn."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        boot = "boot"
    return os.path.join(state_dir, "copies", f"{application_id}-{boot}")
