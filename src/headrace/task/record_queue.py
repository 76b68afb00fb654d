"""The input of a task: a queue per partition, and the order in which their records are taken.

The record at the head of a queue is deserialized and has its time; the others wait as bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
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


class QueuedRecord(NamedTuple):
    """A record that is next in its queue; a skipped one stands for those at the end that could not be used."""

    key: Any
    value: Any
    context: RecordContext
    is_skipped: bool = False


class RecordQueue:
    """The records of one partition in the order of their offsets."""

    __slots__ = (
        "_deserialize_key",
        "_deserialize_value",
        "_extractor",
        "_on_failure",
        "_on_skip",
        "_waiting",
        "_wants_record",
        "head",
        "head_timestamp",
        "node",
        "partition_time",
        "process",
    )

    def __init__(
        self,
        node: str,
        deserialize_key: Callable[[bytes | None], Any],
        deserialize_value: Callable[[bytes | None], Any],
        extractor: TimestampExtractor,
        on_failure: Callable[[str, RawRecord, Exception], None],
        on_skip: Callable[[RawRecord, str], None],
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
        self._waiting: deque[RawRecord] = deque()
        self.head: QueuedRecord | None = None
        self.head_timestamp = UNKNOWN
        self.partition_time = UNKNOWN

    def __len__(self) -> int:
        return len(self._waiting) + (self.head is not None)

    def add(self, record: RawRecord) -> None:
        """Adds a record at the end."""
        self._waiting.append(record)
        if self.head is None:
            self._advance()

    def poll(self) -> QueuedRecord:
        """Takes the record at the head out."""
        taken = self.head
        assert taken is not None
        timestamp = self.head_timestamp
        self.head = None
        self.head_timestamp = UNKNOWN
        if timestamp > self.partition_time:
            self.partition_time = timestamp
        if self._waiting:
            self._advance()
        return taken

    def clear(self) -> None:
        """Forgets all records and the time."""
        self._waiting.clear()
        self.head = None
        self.head_timestamp = self.partition_time = UNKNOWN

    def _advance(self) -> None:
        waiting = self._waiting
        skipped: RawRecord | None = None
        while waiting:
            raw = waiting.popleft()
            topic, partition, offset, timestamp, raw_key, raw_value, headers = raw
            try:
                key = self._deserialize_key(raw_key)
                value = self._deserialize_value(raw_value)
            except Exception as error:
                self._on_failure(self.node, raw, error)
                skipped = raw
                continue
            if timestamp < 0 or self._wants_record:
                timestamp = self._extract(ConsumedRecord(key, value, timestamp, headers, topic, partition, offset))
                if timestamp < 0:
                    self._on_skip(raw, f"negative extracted timestamp {timestamp}")
                    skipped = raw
                    continue
            context = RecordContext(timestamp, headers, topic, partition, offset, raw_key, raw_value)
            self.head = QueuedRecord(key, value, context)
            self.head_timestamp = timestamp
            return
        if skipped is not None:
            context = RecordContext(UNKNOWN, skipped.headers, skipped.topic, skipped.partition, skipped.offset)
            self.head = QueuedRecord(None, None, context, True)
            self.head_timestamp = UNKNOWN

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

    __slots__ = ("_non_empty", "buffered", "queues", "stream_time")

    def __init__(self, queues: dict[str, RecordQueue]) -> None:
        self.queues = queues
        self._non_empty: PriorityQueue[RecordQueue] = PriorityQueue(_head_timestamp)
        self.buffered = 0
        """How many records wait."""
        self.stream_time = UNKNOWN
        """The largest timestamp of the records taken so far."""

    def add(self, queue: RecordQueue, record: RawRecord) -> None:
        """Adds a record to its queue."""
        before = len(queue)
        queue.add(record)
        after = len(queue)
        self.buffered += after - before
        if not before and after:
            self._non_empty.offer(queue)

    def take(self) -> tuple[RecordQueue, QueuedRecord] | None:
        """The next record and its queue."""
        queue = self._non_empty.poll()
        if queue is None:
            return None
        before = len(queue)
        timestamp = queue.head_timestamp
        record = queue.poll()
        after = len(queue)
        self.buffered += after - before
        if after:
            self._non_empty.offer(queue)
        if timestamp > self.stream_time:
            self.stream_time = timestamp
        return queue, record

    def clear(self) -> None:
        """Forgets all records and the time."""
        for queue in self.queues.values():
            queue.clear()
        self._non_empty.clear()
        self.buffered = 0
        self.stream_time = UNKNOWN


def _head_timestamp(queue: RecordQueue) -> int:
    return queue.head_timestamp
