"""Records: what users see, and what travels through a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

K = TypeVar("K")
V = TypeVar("V")

Headers = tuple[tuple[str, bytes | None], ...]
"""Record headers, in order; a name may occur more than once."""

NO_HEADERS: Headers = ()


@dataclass(frozen=True, slots=True)
class Record(Generic[K, V]):
    """A record: key, value, timestamp in milliseconds, headers."""

    key: K
    value: V
    timestamp: int = 0
    headers: Headers = NO_HEADERS

    def with_key(self, key: Any) -> Record[Any, V]:
        """The same record with another key."""
        return replace(self, key=key)

    def with_value(self, value: Any) -> Record[K, Any]:
        """The same record with another value."""
        return replace(self, value=value)

    def with_timestamp(self, timestamp: int) -> Record[K, V]:
        """The same record with another timestamp."""
        return replace(self, timestamp=timestamp)

    def with_headers(self, headers: Sequence[tuple[str, bytes | None]]) -> Record[K, V]:
        """The same record with other headers."""
        return replace(self, headers=tuple(headers))


class RecordMetadata(NamedTuple):
    """Where the record being processed came from."""

    topic: str
    partition: int
    offset: int


class RecordContext(msgspec.Struct, gc=False, eq=False):
    """What travels with a key and a value from node to node: time, headers and where the input record came from.

    Treat as immutable: operators that change the time or the headers pass on a new one.
    """

    timestamp: int
    headers: Headers = NO_HEADERS
    topic: str | None = None
    partition: int = -1
    offset: int = -1
    raw_key: bytes | None = None
    raw_value: bytes | None = None

    def at(self, timestamp: int) -> RecordContext:
        """This context at another time."""
        if timestamp == self.timestamp:
            return self
        return RecordContext(
            timestamp, self.headers, self.topic, self.partition, self.offset, self.raw_key, self.raw_value
        )

    def carrying(self, timestamp: int, headers: Headers) -> RecordContext:
        """This context at another time and with other headers."""
        return RecordContext(timestamp, headers, self.topic, self.partition, self.offset, self.raw_key, self.raw_value)

    def __repr__(self) -> str:
        return f"RecordContext(timestamp={self.timestamp}, {self.topic}-{self.partition}@{self.offset})"


class Change(NamedTuple):
    """An update of a table: the new value, the old one where it is sent along, and whether it is the latest."""

    new: Any
    old: Any
    is_latest: bool = True


class ValueAndTimestamp(NamedTuple):
    """A value of a table with the time it is of."""

    value: Any
    timestamp: int


value_and_timestamp = partial(tuple.__new__, ValueAndTimestamp)
"""Makes one of a pair, in half the time that its own constructor takes."""
