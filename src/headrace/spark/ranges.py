"""Ranges: what a batch reads of a partition."""

from __future__ import annotations

from typing import NamedTuple

from headrace.record import Headers

Row = tuple[int, int, bytes | None, bytes | None, Headers]
"""A number, timestamp, key, value, headers. The number of a record that was read is its offset; on the way to another
task it is the row's place in the order of its origin, on the way to the driver the partition to write to."""


class Range(NamedTuple):
    """Consecutive offsets of a partition."""

    topic: str
    partition: int
    start: int
    end: int
    """The offset after the last."""
    has_more: bool = False
    """Whether the partition goes on behind it."""
    rows: tuple[Row, ...] | None = None
    """The records, where the driver has them already; else the worker reads them from Kafka."""

    @property
    def place(self) -> tuple[str, int]:
        """The partition."""
        return self.topic, self.partition
