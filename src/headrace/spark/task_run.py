"""One task in one batch: its records, its working copy, its results."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from itertools import chain, groupby

import msgspec

from headrace.errors import StreamsError
from headrace.kafka.topics import Topics
from headrace.record import NO_HEADERS, Headers
from headrace.serdes.hashing import partition_for_key
from headrace.spark.commit_record import TaskState
from headrace.spark.global_copy import GlobalCopy
from headrace.spark.layout import task_parts
from headrace.spark.origins import merge_origins
from headrace.spark.parcels import ANY_PARTITION, DRIVER, REPORT, ROWS_IN_PARCEL, Parcel, ParcelWriter
from headrace.spark.ranges import Range, Row
from headrace.spark.reader import KafkaReader, reader_for
from headrace.spark.rebuild import Changelogs
from headrace.spark.worker import Batch, Program, Work, copies_directory
from headrace.spark.working_copy import Read, Readers, WorkingCopy
from headrace.state.changes import Changes
from headrace.state.overlay import OverlayStore
from headrace.task.record_queue import RecordQueue
from headrace.task.task import Task
from headrace.timestamps import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    WallclockTimestampExtractor,
    extractor_of,
)
from headrace.topology.nodes import ProcessorNode, SourceNode

Write = Callable[["bytes | None", "bytes | None", "int | None", Headers], None]
"""Writes a record: key, value, timestamp (None: that of the batch), headers."""

_ORIGIN_SHIFT = 34
"""The bits of a shuffled row's number that count the rows of its origin."""
_TIMELESS = (FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, WallclockTimestampExtractor)
"""Timestamp extractors that do not look at the partition's time."""


class Report(msgspec.Struct):
    """What a task tells the driver about a batch."""

    task: str
    state: TaskState | None
    """What it remembers; None where it need not remember anything."""
    records: int
    """How many records it read from Kafka."""
    bytes: int
    """About how many bytes their keys and values had."""
    cut: dict[str, int]
    """By topic of which it left a part for the next batch, the offset it read up to."""
    dropped: dict[str, int]
    stores: dict[str, int]
    """By store, how many entries it has."""
    rebuilt: bool
    """Whether its working copy was rebuilt from the changelogs."""
    rebuilt_records: int
    """How many records that took."""
    rebuild_seconds: float
    """How long that took."""


class Received:
    """The rows of a topic that other tasks have sent, of which some may have to wait."""

    def __init__(self, pieces: Iterator[list[Row]]) -> None:
        self._rows = chain.from_iterable(pieces)
        self._last: Row | None = None

    @property
    def has_begun(self) -> bool:
        """Whether any row was taken whose turn can be told."""
        return self._last is not None

    def rows(self, may_wait: bool) -> Iterator[Row]:
        """The rows, to be taken one by one."""
        return self._remembered() if may_wait else self._rows

    def left(self, number: int | None) -> Iterator[Row]:
        """The rows that were not processed, the first one being that of the number, if it was taken."""
        if self._last is not None and self._last[0] == number:
            return chain((self._last,), self._rows)
        return self._rows

    def _remembered(self) -> Iterator[Row]:
        for row in self._rows:
            self._last = row
            yield row


class TaskRun:
    """A task at work on the rows of one batch."""

    def __init__(self, program: Program, batch: Batch, work: Work, out: ParcelWriter) -> None:
        self._program = program
        self._batch = batch
        self._work = work
        self._out = out
        self._group, self._partition = task_parts(work.task)
        self._records = self._bytes = 0
        self._cut: dict[str, int] = {}
        self._unread: set[str] = set()
        """Topics that go on in Kafka behind what the task reads of them."""
        self._rebuilt = False
        self._rebuild_seconds = 0.0
        self._results: dict[str, list[Row]] = {}
        """What the driver is to write, by topic."""
        layout = program.layout
        self._shuffled = {
            topic: [out.place(layout.readers[topic], each, topic) for each in range(layout.partitions[topic])]
            for topic in layout.shuffled
        }
        """What tasks of later stages are to read, by topic and partition."""
        self._largest_sent = program.settings.largest_record
        self._sent = 0
        self._origin = self._group << 50 | self._partition << _ORIGIN_SHIFT
        topology = program.topology
        self._nodes = next(each for each in topology.subtopologies() if each.id == self._group).nodes
        used = {
            store
            for name in self._nodes
            if isinstance(node := topology.nodes[name], ProcessorNode)
            for store in node.stores
        }
        self._stores = [spec for name, spec in topology.stores.items() if name in used and not spec.is_global]
        self._remembers = bool(self._stores) or self._group in layout.scheduling or self._asks_for_partition_time()

    def run(self, parcels: list[Parcel]) -> None:
        """Runs the task on what it reads and on what other tasks have sent it."""
        if not self._stores:
            self._run({}, parcels)
            return
        copy = WorkingCopy(copies_directory(self._program) / self._work.task, [spec.name for spec in self._stores])
        try:
            before = self._work.state.version
            began = time.perf_counter()
            self._rebuilt = copy.bring_to(before, self._read_all, self._catch_up)
            if self._rebuilt:
                self._rebuild_seconds = time.perf_counter() - began
            version = f"{self._batch.number}-{uuid.uuid4().hex[:12]}"
            with copy.read(self._work.state.facts) as overlays:
                self._run(overlays, parcels, version)
                changes = copy.changes()
            copy.hold(version, before, changes)
        finally:
            copy.close()

    def _run(self, overlays: Mapping[str, OverlayStore], parcels: list[Parcel], version: str = "") -> None:
        program = self._program
        with self._global_stores() as global_stores:
            task = Task(
                program.topology,
                program.config,
                application_id=program.application_id,
                ordered=lambda spec: global_stores[spec.name] if spec.is_global else overlays[spec.name],
                send=self._send,
                clock=lambda: self._batch.clock,
                task_id=self._work.task,
                partition=self._partition,
                nodes=self._nodes,
                partitions=lambda topic: program.layout.partitions.get(topic, 1),
                queue_per_topic=True,
                largest_record=self._largest_record,
                changelog=self._writer,
            )
            if self._work.state.snapshot is not None:
                task.restore(self._work.state.snapshot)
            self._feed(task, parcels)
            task.punctuate_system_time()
            task.commit(closing=True)
            state = None
            if self._remembers:
                facts = {name: overlay.facts for name, overlay in overlays.items() if overlay.facts}
                state = TaskState(version, task.snapshot(), facts, task.next_system_punctuation)
            task.close()
        report = Report(
            self._work.task,
            state,
            self._records,
            self._bytes,
            self._cut,
            dict(task.dropped),
            {name: len(overlay) for name, overlay in overlays.items()},
            self._rebuilt,
            self._changelogs.records if self._rebuilt else 0,
            self._rebuild_seconds,
        )
        content = msgspec.msgpack.encode(report)
        self._out.place(DRIVER, self._partition, REPORT).append((0, 0, None, content, NO_HEADERS))

    # --- what goes in ------------------------------------------------------------------------------------------

    def _feed(self, task: Task, parcels: list[Parcel]) -> None:
        """Has the task process all rows: each topic in its order, the topics merged by time."""
        # Where a topic goes on in Kafka, what comes next may be earlier than what the others have: they wait for it.
        self._unread.update(each.topic for each in self._work.reads if each.has_more)
        reads = self._read()
        received = {topic: Received(rows) for topic, rows in self._received(parcels).items()}
        sources = {topic: self._in_order(topic, reads, received) for topic in sorted(reads.keys() | received.keys())}
        if len(sources) == 1:
            for topic, rows in sources.items():
                task.process_all(_queue_of(task, topic), topic, self._partition, rows)
        else:
            self._cut.update(task.process_merged(self._partition, sources, self._unread))
        for read in reads.values():
            read.close()
        for topic, waiting in received.items():
            self._leave(topic, waiting)

    def _in_order(
        self, topic: str, reads: Mapping[str, Iterator[list[Row]]], received: Mapping[str, Received]
    ) -> Iterator[Row]:
        """The rows of a topic: those that earlier batches have left in Kafka come before what was sent now."""
        if topic not in reads:
            return received[topic].rows(topic in self._program.layout.spilling)
        rows = chain.from_iterable(reads[topic])
        return rows if topic not in received else chain(rows, self._unless_unread(topic, received[topic]))

    def _unless_unread(self, topic: str, received: Received) -> Iterator[Row]:
        if topic not in self._unread:
            yield from received.rows(True)

    def _leave(self, topic: str, received: Received) -> None:
        """Leaves the rows that could not be processed yet for a later batch, in Kafka."""
        left = received.left(self._cut.get(topic))
        if received.has_begun:
            self._cut.pop(topic, None)  # it is not an offset, and all that was in Kafka is processed
        write = self._writer(topic)
        for _, timestamp, key, value, headers in left:
            assert topic in self._program.layout.spilling, f"rows of {topic} cannot be left for a later batch"
            write(key, value, timestamp, headers)

    def _read(self) -> dict[str, Generator[list[Row], None, None]]:
        """What Kafka has for the task, by topic, in the order of the offsets."""
        return {each.topic: self._counted(each, number) for number, each in enumerate(self._work.reads)}

    def _counted(self, wanted: Range, number: int) -> Generator[list[Row], None, None]:
        if wanted.rows is not None:
            self._records += len(wanted.rows)
            yield list(wanted.rows)
            return
        for rows in self._reader(number).read(wanted):
            if not rows:
                continue
            self._records += len(rows)
            self._bytes += len(rows) * (_size(rows[0]) + _size(rows[-1])) // 2
            yield rows
            if self._bytes > self._batch.most_bytes and rows[-1][0] + 1 < wanted.end:
                self._cut[wanted.topic] = rows[-1][0] + 1
                self._unread.add(wanted.topic)
                return

    def _received(self, parcels: list[Parcel]) -> dict[str, Iterator[list[Row]]]:
        """What other tasks have sent, by topic, merged by time."""
        by_topic: dict[str, list[Parcel]] = {}
        for parcel in parcels:
            by_topic.setdefault(parcel.topic, []).append(parcel)
        return {
            topic: merge_origins([_opened(list(each)) for _, each in groupby(sorted(sent, key=_first), key=_origin)])
            for topic, sent in by_topic.items()
        }

    def _reader(self, number: int = 0) -> KafkaReader:
        program = self._program
        group, skip_lost = program.application_id, program.skips_lost
        return reader_for(program.id, program.settings, group, skip_lost=skip_lost, number=number)

    @cached_property
    def _changelogs(self) -> Changelogs:
        program = self._program
        topics = Topics(program.settings)
        return Changelogs(
            self._stores, program.changelogs, self._partition, self._reader(), topics, self._batch.changelog_ends
        )

    def _read_all(self, stores: Readers) -> Iterator[Changes]:
        return self._changelogs.read(stores)

    def _catch_up(self, version: str) -> Read | None:
        """How to bring a working copy on from one of the last versions; None where that is too old."""
        starts = self._batch.recent.get(self._work.task, {}).get(version)
        return None if starts is None else lambda stores: self._changelogs.read(stores, starts)

    def _global_stores(self) -> AbstractContextManager[Mapping[str, OverlayStore]]:
        program = self._program
        if not program.topology.global_nodes:
            return nullcontext({})
        copy = GlobalCopy.on_this_host(program, copies_directory(program))
        return copy.read_to(self._batch.global_ends, self._batch.clock, self._reader)

    def _asks_for_partition_time(self) -> bool:
        """Whether a timestamp extractor may want the time of the batches before."""
        program = self._program
        sources = [node for name in self._nodes if isinstance(node := program.topology.nodes[name], SourceNode)]
        default = program.config.default_timestamp_extractor
        used = (extractor_of(node.timestamp_extractor or default) for node in sources)
        return any(type(extractor) not in _TIMELESS for extractor in used)

    # --- what comes out ----------------------------------------------------------------------------------------

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
            rows, number = (
                self._results.get(topic) or self._place(topic),
                ANY_PARTITION if partition is None else partition,
            )
        else:
            if partition is None:
                partition = _partition_of(key, len(places), self._sent)
            elif partition >= len(places):
                raise StreamsError(
                    f"The partitioner chose partition {partition} of topic {topic}, which has {len(places)}"
                )
            self._sent += 1
            rows, number = places[partition], self._origin | self._sent
        rows.append((number, timestamp, key, value, headers))
        if len(rows) >= ROWS_IN_PARCEL:
            self._out.pack()

    def _writer(self, topic: str) -> Write:
        """Writes rows of this task's partition by way of the driver."""
        rows, partition, out, now = self._place(topic), self._partition, self._out, self._batch.clock

        def write(key: bytes | None, value: bytes | None, timestamp: int | None, headers: Headers) -> None:
            rows.append((partition, now if timestamp is None else timestamp, key, value, headers))
            if len(rows) >= ROWS_IN_PARCEL:
                out.pack()

        return write

    def _place(self, topic: str) -> list[Row]:
        """Where rows of a topic are put that the driver is to write."""
        rows = self._results.get(topic)
        if rows is None:
            rows = self._results[topic] = self._out.place(DRIVER, self._partition, topic)
        return rows

    def _largest_record(self, topic: str) -> int:
        """How large a record for the topic may be; what is shuffled is not sent."""
        return sys.maxsize if topic in self._shuffled else self._largest_sent


def _size(row: Row) -> int:
    return len(row[2] or b"") + len(row[3] or b"")


def _opened(parcels: Iterable[Parcel]) -> Iterator[list[Row]]:
    return (parcel.open() for parcel in parcels)


def _first(parcel: Parcel) -> int:
    return parcel.first


def _origin(parcel: Parcel) -> int:
    return parcel.first >> _ORIGIN_SHIFT


def _queue_of(task: Task, topic: str) -> RecordQueue:
    queue = task.queue_of(topic)
    assert queue is not None
    return queue


def _partition_of(key: bytes | None, count: int, turn: int) -> int:
    return turn % count if key is None else partition_for_key(key, count)
