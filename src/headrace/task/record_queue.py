"""The input of a task: a queue per partition, and the order in which their records are taken.

The record at the head of a queue is deserialized and has its time; the others wait as bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple, Protocol

from headrace.duration import MAX_MILLIS
from headrace.errors import StreamsError
from headrace.record import Headers, RecordContext
from headrace.serdes.direct import direct_decoder
from headrace.task.priority_queue import PriorityQueue
from headrace.timestamps import ConsumedRecord, TimestampExtractor, reads_metadata

UNKNOWN = -1
"""The time before the first record."""


class RawRecord(NamedTuple):
    """A record as it lies in a topic."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


Numbered = tuple[int, int, "bytes | None", "bytes | None", Headers]
"""The fields of a record whose topic and partition are known: offset, timestamp, key, value, headers."""

Raw = tuple[str, int, int, int, "bytes | None", "bytes | None", Headers]
"""The fields of a RawRecord as a plain tuple, which takes a fraction of the time to make."""


_END = (None,)
"""Follows the records of a run: the last one is still ahead then."""


class RunningTask(Protocol):
    """What a run needs of the task it is part of."""

    @property
    def group(self) -> PartitionGroup:
        """The queues of the task, and its stream time."""
        ...

    @property
    def stream_schedules(self) -> Collection[object]:
        """The punctuations by stream time; where there are none, there is nothing to punctuate."""
        ...

    def punctuate_stream_time(self) -> bool:
        """Runs what is due by stream time."""
        ...

    def failure(self, source: str, context: RecordContext, error: Exception) -> Exception:
        """The error to raise for one that came out of a source's `process`, with its cause."""
        ...


class SkippedRecord(RecordContext, gc=False, eq=False):
    """Stands at the head of a queue for records that could not be used, where no other follows them."""


class RecordQueue:
    """The records of one partition in the order of their offsets."""

    __slots__ = (
        "_extractor",
        "_on_failure",
        "_on_skip",
        "_wants_record",
        "deserialize_key",
        "deserialize_value",
        "head",
        "head_timestamp",
        "key",
        "next_offset",
        "node",
        "partition_time",
        "process",
        "tries_direct",
        "value",
        "waiting",
    )

    def __init__(
        self,
        node: str,
        deserialize_key: Callable[[bytes | None], Any],
        deserialize_value: Callable[[bytes | None], Any],
        extractor: TimestampExtractor,
        on_failure: Callable[[str, RawRecord, Exception], None],
        on_skip: Callable[[str, RawRecord, str], None],
        process: Callable[[Any, Any, RecordContext], None],
    ) -> None:
        self.node = node
        """The source node that reads the partition."""
        self.process = process
        """Passes a record on to the source's children."""
        self.deserialize_key = deserialize_key
        self.deserialize_value = deserialize_value
        self._extractor = extractor
        self._wants_record = not reads_metadata(extractor)
        self._on_failure = on_failure
        self._on_skip = on_skip
        self.tries_direct = None not in (direct_decoder(deserialize_key), direct_decoder(deserialize_value))
        """Whether what a record is read with has direct forms, to be tried first."""
        self.waiting: deque[Raw] = deque()
        self.head: RecordContext | None = None
        """The record that is next: its context, and beside it its key and value."""
        self.key: Any = None
        self.value: Any = None
        self.head_timestamp = UNKNOWN
        self.partition_time = UNKNOWN
        self.next_offset = 0
        """The offset to go on from, where a run has told a time and was left."""

    def __len__(self) -> int:
        return len(self.waiting) + (self.head is not None)

    def clear(self) -> None:
        """Forgets all records and the time."""
        self.waiting.clear()
        self.head = self.key = self.value = None
        self.head_timestamp = self.partition_time = UNKNOWN

    def advance(self) -> None:
        """Makes the first record that can be used the head; a skipped one stands there if none can."""
        waiting = self.waiting
        self.head = None
        self.head_timestamp = UNKNOWN
        skipped: RawRecord | None = None
        while waiting:
            topic, partition, offset, timestamp, raw_key, raw_value, headers = waiting.popleft()
            try:
                key = self.deserialize_key(raw_key)
                value = self.deserialize_value(raw_value)
            except Exception as error:
                skipped = RawRecord(topic, partition, offset, timestamp, raw_key, raw_value, headers)
                self._on_failure(self.node, skipped, error)
                continue
            if timestamp < 0 or self._wants_record:
                raw = RawRecord(topic, partition, offset, timestamp, raw_key, raw_value, headers)
                timestamp = self._time_of(key, value, raw)
                if timestamp < 0:
                    skipped = raw
                    continue
            self.key = key
            self.value = value
            self.head = RecordContext(timestamp, headers, topic, partition, offset, raw_key, raw_value)
            self.head_timestamp = timestamp
            return
        self.key = self.value = None
        if skipped is not None:
            self.head = SkippedRecord(UNKNOWN, skipped.headers, skipped.topic, skipped.partition, skipped.offset)

    def run(self, topic: str, partition: int, records: Iterable[Numbered], task: RunningTask) -> Iterator[int]:
        """Processes records of one partition, and tells the time of the one that is next before it is processed.

        As at the head of a queue, a record is read and has its time before the one ahead of it is processed. Where the
        last ones could not be used, they are next once more, with no time, as one that stands for them would be.
        """
        group, schedules = task.group, task.stream_schedules
        ahead: Numbered | None = None
        key = value = next_key = next_value = None
        time = timestamp = UNKNOWN
        skipped: Numbered | None = None
        for record in chain(records, _END):
            if ahead is not None and time > self.partition_time:
                self.partition_time = time
            if record is not None:
                timestamp, raw_key, raw_value = record[1], record[2], record[3]
                try:
                    next_key = self.deserialize_key(raw_key)
                    next_value = self.deserialize_value(raw_value)
                except Exception as error:
                    read = self._read_again(RawRecord(topic, partition, *record), error)
                    if read is None:
                        skipped = record
                        continue
                    next_key, next_value = read
                if timestamp < 0 or self._wants_record:
                    timestamp = self._time_of(next_key, next_value, RawRecord(topic, partition, *record))
                    if timestamp < 0:
                        skipped = record
                        continue
            if ahead is not None:
                if time > group.stream_time:
                    group.stream_time = time
                try:
                    self.process(
                        key,
                        value,
                        RecordContext(time, ahead[4], topic, partition, ahead[0], ahead[2], ahead[3]),
                    )
                except Exception as error:
                    context = RecordContext(time, ahead[4], topic, partition, ahead[0], ahead[2], ahead[3])
                    failure = task.failure(self.node, context, error)
                    raise failure from failure.__cause__
                if schedules:
                    task.punctuate_stream_time()
            if record is not None:
                ahead, time = record, timestamp
                key, value = next_key, next_value
                skipped = None
                self.next_offset = record[0]
                yield time
        if skipped is not None:
            self.next_offset = skipped[0] + 1
            yield UNKNOWN

    def _read_again(self, raw: RawRecord, error: Exception) -> tuple[Any, Any] | None:
        """Key and value of a record that could not be read directly; None, once that is reported, if not at all."""
        if self.tries_direct:
            try:
                return self.deserialize_key(raw.key), self.deserialize_value(raw.value)
            except Exception as plain:
                error = plain
        self._on_failure(self.node, raw, error)
        return None

    def _time_of(self, key: Any, value: Any, raw: RawRecord) -> int:
        """The time of a record that its extractor tells; negative, once that is reported, if it is to be skipped."""
        topic, partition, offset, timestamp, _, _, headers = raw
        extracted = self._extract(ConsumedRecord(key, value, timestamp, headers, topic, partition, offset))
        if extracted < 0:
            self._on_skip(self.node, raw, f"negative extracted timestamp {extracted}")
        return extracted

    def _extract(self, record: ConsumedRecord) -> int:
        try:
            return self._extractor(record, self.partition_time)
        except StreamsError:
            raise
        except Exception as error:
            raise StreamsError(
                f"Fatal user code error in the timestamp extractor of node {self.node} for record {record}: {error}"
            ) from error


class PartitionGroup:
    """The queues of a task: the record with the least timestamp at the head of a queue is next."""

    __slots__ = ("non_empty", "queues", "stream_time")

    def __init__(self) -> None:
        self.queues: dict[str, RecordQueue] = {}
        self.non_empty: PriorityQueue[RecordQueue] = PriorityQueue(_head_timestamp)
        self.stream_time = UNKNOWN
        """The largest timestamp of the records taken so far."""

    def add(self, queue: RecordQueue, record: Raw) -> None:
        """Adds a record to its queue."""
        queue.waiting.append(record)
        if queue.head is None:
            queue.advance()
            self.non_empty.offer(queue)

    def take(self) -> tuple[RecordQueue, Any, Any, RecordContext] | None:
        """The next record: its queue, key, value and context."""
        queue = self.non_empty.poll()
        if queue is None:
            return None
        context = queue.head
        assert context is not None
        taken = queue, queue.key, queue.value, context
        timestamp = queue.head_timestamp
        if timestamp > queue.partition_time:
            queue.partition_time = timestamp
        queue.advance()
        if queue.head is not None:
            self.non_empty.offer(queue)
        if timestamp > self.stream_time:
            self.stream_time = timestamp
        return taken

    def clear(self) -> None:
        """Forgets all records and the time."""
        for queue in self.queues.values():
            queue.clear()
        self.non_empty.clear()
        self.stream_time = UNKNOWN


class _Merged:
    """A run of records among others."""

    __slots__ = ("run", "time", "topic")

    def __init__(self, topic: str, run: Iterator[int], time: int) -> None:
        self.topic = topic
        self.run = run
        self.time = time
        """That of the record which is next."""


def run_merged(runs: Mapping[str, Iterator[int]], unread: Container[str]) -> set[str]:
    """Goes on with the run whose next record has the least time, as `take` would; the topics that have records left.

    It stops after the last record of a topic of which more is to come: that may be earlier than what is left.
    """
    waiting: PriorityQueue[_Merged] = PriorityQueue(_time)
    stops = False
    for topic, run in runs.items():
        time = next(run, None)
        if time is not None:
            waiting.offer(_Merged(topic, run, time))
        elif topic in unread:
            stops = True
    heap = waiting.heap
    while heap and not stops:
        if len(heap) <= 2:
            ended = _run_to_an_end(*heap)
            heap.remove(ended)
            stops = ended.topic in unread
            continue
        first = waiting.poll()
        assert first is not None
        time = next(first.run, None)
        if time is None:
            stops = first.topic in unread
        else:
            first.time = time
            waiting.offer(first)
    return {each.topic for each in heap}


def _run_to_an_end(one: _Merged, other: _Merged | None = None) -> _Merged:
    """Goes on with one or two runs, `one` being next, until one of them ends: that one."""
    while True:
        latest = MAX_MILLIS if other is None else other.time - 1
        for time in one.run:
            if time > latest:
                break
        else:
            return one
        one.time = time
        assert other is not None
        one, other = other, one


def _time(merged: _Merged) -> int:
    return merged.time


def _head_timestamp(queue: RecordQueue) -> int:
    return queue.head_timestamp
