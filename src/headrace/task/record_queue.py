"""The input of a task: a queue per partition, and the order in which their records are taken.

The record at the head of a queue is deserialized and has its time; the others wait as bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from headrace.errors import StreamsError
from headrace.record import Headers, RecordContext
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


class SkippedRecord(RecordContext, gc=False, eq=False):
    """Stands at the head of a queue for records that could not be used, where no other follows them."""


class RecordQueue:
    """The records of one partition in the order of their offsets."""

    __slots__ = (
        "_deserialize_key",
        "_deserialize_value",
        "_extractor",
        "_on_failure",
        "_on_skip",
        "_wants_record",
        "head",
        "head_timestamp",
        "key",
        "node",
        "partition_time",
        "process",
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
        self._deserialize_key = deserialize_key
        self._deserialize_value = deserialize_value
        self._extractor = extractor
        self._wants_record = not reads_metadata(extractor)
        self._on_failure = on_failure
        self._on_skip = on_skip
        self.waiting: deque[Raw] = deque()
        self.head: RecordContext | None = None
        """The record that is next: its context, and beside it its key and value."""
        self.key: Any = None
        self.value: Any = None
        self.head_timestamp = UNKNOWN
        self.partition_time = UNKNOWN

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
            raw = waiting.popleft()
            topic, partition, offset, timestamp, raw_key, raw_value, headers = raw
            try:
                key = self._deserialize_key(raw_key)
                value = self._deserialize_value(raw_value)
            except Exception as error:
                skipped = RawRecord(*raw)
                self._on_failure(self.node, skipped, error)
                continue
            if timestamp < 0 or self._wants_record:
                timestamp = self._extract(ConsumedRecord(key, value, timestamp, headers, topic, partition, offset))
                if timestamp < 0:
                    skipped = RawRecord(*raw)
                    self._on_skip(self.node, skipped, f"negative extracted timestamp {timestamp}")
                    continue
            self.key = key
            self.value = value
            self.head = RecordContext(timestamp, headers, topic, partition, offset, raw_key, raw_value)
            self.head_timestamp = timestamp
            return
        if skipped is not None:
            self.key = self.value = None
            self.head = SkippedRecord(UNKNOWN, skipped.headers, skipped.topic, skipped.partition, skipped.offset)

    def read(self, topic: str, partition: int, records: Iterable[Numbered]) -> Iterator[tuple[Any, Any, RecordContext]]:
        """The records that can be used, where no other queue has any: key, value and context.

        As at the head of a queue, a record is read and has its time before the one ahead of it is given out.
        """
        deserialize_key, deserialize_value, wants_record = (
            self._deserialize_key,
            self._deserialize_value,
            self._wants_record,
        )
        ahead: tuple[Any, Any, RecordContext] | None = None
        for offset, timestamp, raw_key, raw_value, headers in records:
            try:
                key = deserialize_key(raw_key)
                value = deserialize_value(raw_value)
            except Exception as error:
                raw = RawRecord(topic, partition, offset, timestamp, raw_key, raw_value, headers)
                self._on_failure(self.node, raw, error)
                continue
            if timestamp < 0 or wants_record:
                extracted = self._extract(ConsumedRecord(key, value, timestamp, headers, topic, partition, offset))
                if extracted < 0:
                    raw = RawRecord(topic, partition, offset, timestamp, raw_key, raw_value, headers)
                    self._on_skip(self.node, raw, f"negative extracted timestamp {extracted}")
                    continue
                timestamp = extracted
            if ahead is not None:
                yield ahead
            ahead = key, value, RecordContext(timestamp, headers, topic, partition, offset, raw_key, raw_value)
            if timestamp > self.partition_time:
                self.partition_time = timestamp
        if ahead is not None:
            yield ahead

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
        if queue.waiting:
            queue.advance()
            self.non_empty.offer(queue)
        else:
            queue.head = queue.key = queue.value = None
        if timestamp > self.stream_time:
            self.stream_time = timestamp
        return taken

    def clear(self) -> None:
        """Forgets all records and the time."""
        for queue in self.queues.values():
            queue.clear()
        self.non_empty.clear()
        self.stream_time = UNKNOWN


def _head_timestamp(queue: RecordQueue) -> int:
    return queue.head_timestamp
