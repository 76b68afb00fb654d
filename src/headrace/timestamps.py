"""Timestamp extractors: what time a record is of.

An extractor is a function `(record, partition_time) -> int`; a negative answer drops the record.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from headrace.errors import ConfigError, InvalidTimestampError
from headrace.record import NO_HEADERS, Headers

logger = logging.getLogger(__name__)

TimestampExtractor = Callable[[Any, int], int]
"""(record, partition_time) -> timestamp in milliseconds."""


class ConsumedRecord(NamedTuple):
    """A record as it was read from a topic; deserialized, except where a handler is told of bytes it cannot read."""

    key: Any
    value: Any
    timestamp: int
    headers: Headers = NO_HEADERS
    topic: str = ""
    partition: int = 0
    offset: int = 0


class FailOnInvalidTimestamp:
    """The record's own timestamp; a negative one ends the application."""

    def __call__(self, record: ConsumedRecord, partition_time: int) -> int:
        if record.timestamp < 0:
            raise InvalidTimestampError(
                f"Input record {record} has invalid (negative) timestamp. Possibly the producer did not set one. "
                "Use a different timestamp extractor to process this data: LogAndSkipOnInvalidTimestamp, "
                "UsePartitionTimeOnInvalidTimestamp, or a function of your own."
            )
        return record.timestamp


class LogAndSkipOnInvalidTimestamp:
    """The record's own timestamp; a record with a negative one is dropped."""

    def __call__(self, record: ConsumedRecord, partition_time: int) -> int:
        if record.timestamp < 0:
            logger.warning("Input record %s will be dropped because it has an invalid (negative) timestamp.", record)
        return record.timestamp


class UsePartitionTimeOnInvalidTimestamp:
    """The record's own timestamp; where it is negative, the largest one seen in the partition."""

    def __call__(self, record: ConsumedRecord, partition_time: int) -> int:
        if record.timestamp >= 0:
            return record.timestamp
        if partition_time < 0:
            raise InvalidTimestampError(
                f"Could not infer new timestamp for input record {record} because partition time is unknown."
            )
        return partition_time


class WallclockTimestampExtractor:
    """The time of processing. A task puts its own clock in, so that replaying gives the same times."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self.clock = clock

    def __call__(self, record: ConsumedRecord, partition_time: int) -> int:
        return int(time.time() * 1000) if self.clock is None else self.clock()


def extractor_of(extractor: TimestampExtractor | type[Any]) -> TimestampExtractor:
    """The extractor itself, where its class was given an object of it."""
    made = extractor() if isinstance(extractor, type) else extractor
    if not callable(made):
        raise ConfigError(
            f"A timestamp extractor is a function (record, partition_time) -> int, not {type(made).__name__}: {made!r}"
        )
    return cast(TimestampExtractor, made)


def reads_metadata(extractor: TimestampExtractor) -> bool:
    """Whether the extractor answers a timestamp that is not negative unchanged, and so need not be asked."""
    return type(extractor) in (
        FailOnInvalidTimestamp,
        LogAndSkipOnInvalidTimestamp,
        UsePartitionTimeOnInvalidTimestamp,
    )
