from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import InvalidTimestampError, StreamsError
from headrace.record import NO_HEADERS
from headrace.task.record_queue import PartitionGroup, RawRecord, RecordQueue, SkippedRecord
from headrace.timestamps import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    TimestampExtractor,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)


class Input:
    """A partition group with queues that note what they skip."""

    def __init__(self, *names: str, extractor: TimestampExtractor | None = None) -> None:
        self.group = PartitionGroup()
        self.failed: list[RawRecord] = []
        self.skipped: list[str] = []
        self.queues = {name: self._queue(name, extractor or FailOnInvalidTimestamp()) for name in names}
        self.group.queues = self.queues
        self.offset = 0

    def _queue(self, name: str, extractor: TimestampExtractor) -> RecordQueue:
        return RecordQueue(
            name,
            lambda data: data,
            _number,
            extractor,
            lambda node, raw, error: self.failed.append(raw),
            lambda node, raw, reason: self.skipped.append(reason),
            lambda key, value, context: None,
        )

    def add(self, name: str, value: bytes, timestamp: int) -> None:
        self.group.add(self.queues[name], (name, 0, self.offset, timestamp, b"k", value, NO_HEADERS))
        self.offset += 1

    def take_all(self) -> list[Any]:
        taken = []
        while (record := self.group.take()) is not None:
            taken.append("skipped" if isinstance(record[3], SkippedRecord) else record[2])
        return taken


def _number(data: bytes | None) -> int | None:
    return None if data is None else int(data)


def test_partitions_are_merged_by_timestamp_and_keep_their_own_order() -> None:
    records = Input("a", "b")
    for name, value, timestamp in [("a", b"1", 10), ("a", b"2", 3), ("b", b"3", 5), ("b", b"4", 12)]:
        records.add(name, value, timestamp)
    assert records.take_all() == [3, 1, 2, 4]
    assert records.group.stream_time == 12
    assert records.queues["a"].partition_time == 10


def test_records_of_the_same_time_leave_as_the_queues_became_non_empty() -> None:
    records = Input("a", "b", "c")
    for name in ("b", "c", "a"):
        records.add(name, b"%d" % ord(name), 5)
    assert [chr(value) for value in records.take_all()] == ["b", "a", "c"]


def test_stream_time_moves_when_a_record_is_taken_not_when_it_arrives() -> None:
    records = Input("a")
    records.add("a", b"1", 8)
    assert records.group.stream_time == -1
    records.group.take()
    assert records.group.stream_time == 8


def test_only_the_head_is_deserialized() -> None:
    records = Input("a")
    records.add("a", b"1", 1)
    records.add("a", b"x", 2)
    assert not records.failed
    records.group.take()
    assert [raw.value for raw in records.failed] == [b"x"]


def test_unusable_records_before_a_good_one_vanish_and_the_last_one_stands_for_those_at_the_end() -> None:
    records = Input("a")
    records.add("a", b"1", 1)
    for value in (b"x", b"2", b"y", b"z"):
        records.add("a", value, 2)
    assert records.take_all() == [1, 2, "skipped"]
    assert records.group.stream_time == 2


def test_a_negative_answer_of_the_extractor_drops_the_record() -> None:
    records = Input("a", extractor=lambda record, partition_time: record.value)
    records.add("a", b"-5", 3)
    records.add("a", b"7", 3)
    assert records.take_all() == ["skipped", 7]
    assert records.skipped == ["negative extracted timestamp -5"]
    assert records.group.stream_time == 7


def test_the_extractor_sees_the_record_and_the_partition_time() -> None:
    seen: list[tuple[Any, ...]] = []

    def extract(record: Any, partition_time: int) -> int:
        seen.append((record.topic, record.partition, record.offset, record.key, record.value, partition_time))
        return int(record.timestamp)

    records = Input("a", extractor=extract)
    records.add("a", b"1", 40)
    records.take_all()
    records.add("a", b"2", 30)
    assert seen == [("a", 0, 0, b"k", 1, -1), ("a", 0, 1, b"k", 2, 40)]


def test_an_error_in_a_users_extractor_names_the_node() -> None:
    records = Input("a", extractor=lambda record, partition_time: int("no"))
    with pytest.raises(StreamsError, match="timestamp extractor of node a"):
        records.add("a", b"1", 1)


def test_invalid_timestamps() -> None:
    with pytest.raises(InvalidTimestampError, match=r"invalid \(negative\) timestamp"):
        Input("a", extractor=FailOnInvalidTimestamp()).add("a", b"1", -1)

    skipping = Input("a", extractor=LogAndSkipOnInvalidTimestamp())
    skipping.add("a", b"1", -1)
    assert skipping.take_all() == ["skipped"]

    by_partition = Input("a", extractor=UsePartitionTimeOnInvalidTimestamp())
    with pytest.raises(InvalidTimestampError, match="partition time is unknown"):
        by_partition.add("a", b"1", -1)
    by_partition.add("a", b"1", 9)
    by_partition.take_all()
    by_partition.add("a", b"2", -1)
    assert by_partition.queues["a"].head_timestamp == 9

    clocked = Input("a", extractor=WallclockTimestampExtractor(lambda: 77))
    clocked.add("a", b"1", 5)
    assert clocked.queues["a"].head_timestamp == 77
