"""The ends of a topology under test: topics to pipe records into, and topics to read results from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from headrace.duration import to_millis
from headrace.errors import HeadraceError
from headrace.record import NO_HEADERS, Headers, Record
from headrace.serdes import Serde

Pipe = Callable[["bytes | None", "bytes | None", int, Headers], None]
"""Puts a record into the topic: key, value, timestamp, headers."""


class EmptyTopicError(HeadraceError, LookupError):
    """Nothing is left to read in the topic."""


Produced = tuple[str, "bytes | None", "bytes | None", int, Headers, "int | None"]
"""A record that was written: topic, key, value, timestamp, headers, partition."""


class TestInputTopic:
    """A topic to pipe records into."""

    __test__ = False
    __slots__ = ("_advance", "_pipe", "_serialize_key", "_serialize_value", "_time", "topic")

    def __init__(
        self, topic: str, key: Serde[Any], value: Serde[Any], pipe: Pipe, start: int, auto_advance: timedelta
    ) -> None:
        self.topic = topic
        self._serialize_key: Callable[[Any], bytes | None] = key.serialize
        self._serialize_value: Callable[[Any], bytes | None] = value.serialize
        self._pipe = pipe
        self._time = start
        self._advance = to_millis(auto_advance, "auto_advance")

    def pipe(
        self,
        key: Any,
        value: Any,
        timestamp: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = NO_HEADERS,
    ) -> None:
        """Pipes a record through the topology; without a timestamp it has the topic's own time."""
        if timestamp is None:
            timestamp = self._time
            self._time += self._advance
        self._pipe(
            self._serialize_key(key),
            self._serialize_value(value),
            timestamp,
            tuple((name, content) for name, content in headers) if headers else NO_HEADERS,
        )

    def pipe_all(
        self,
        records: Iterable[Record[Any, Any] | tuple[Any, Any]],
        *,
        start: int | None = None,
        advance: timedelta = timedelta(0),
    ) -> None:
        """Pipes records, or pairs of key and value; with `start` the pairs have that time, and `advance` more each."""
        step = to_millis(advance, "advance")
        time = start
        for record in records:
            if isinstance(record, Record):
                self.pipe(record.key, record.value, record.timestamp, record.headers)
                continue
            key, value = record
            self.pipe(key, value, time)
            if time is not None:
                time += step

    def advance_time(self, advance: timedelta) -> None:
        """Moves the time of records that are piped without a timestamp."""
        self._time += to_millis(advance, "advance")

    def __repr__(self) -> str:
        return f"TestInputTopic({self.topic!r})"


class TestOutputTopic:
    """A topic to read results from; what was read is gone."""

    __test__ = False
    __slots__ = ("_deserialize_key", "_deserialize_value", "_records", "topic")

    def __init__(self, topic: str, key: Serde[Any], value: Serde[Any], records: deque[Produced]) -> None:
        self.topic = topic
        self._deserialize_key: Callable[[bytes | None], Any] = key.deserialize
        self._deserialize_value: Callable[[bytes | None], Any] = value.deserialize
        self._records = records

    def read(self) -> Record[Any, Any]:
        """The next record."""
        if not self._records:
            raise EmptyTopicError(f"Empty topic: {self.topic} has no record left to read")
        _, key, value, timestamp, headers, _ = self._records.popleft()
        return Record(self._deserialize_key(key), self._deserialize_value(value), timestamp, headers)

    def read_all(self) -> list[Record[Any, Any]]:
        """All records that were not read yet."""
        return [self.read() for _ in range(len(self))]

    def read_value(self) -> Any:
        """The value of the next record."""
        return self.read().value

    def read_values(self) -> list[Any]:
        """The values of all records that were not read yet."""
        return [record.value for record in self.read_all()]

    def read_key_value(self) -> tuple[Any, Any]:
        """The key and the value of the next record."""
        record = self.read()
        return record.key, record.value

    def read_key_values(self) -> list[tuple[Any, Any]]:
        """The keys and values of all records that were not read yet."""
        return [(record.key, record.value) for record in self.read_all()]

    def read_map(self) -> dict[Any, Any]:
        """The last value of each key among the records that were not read yet."""
        latest: dict[Any, Any] = {}
        for record in self.read_all():
            if record.key is None:
                raise HeadraceError(f"Topic {self.topic}: a record without a key has no place in read_map()")
            latest[record.key] = record.value
        return latest

    @property
    def is_empty(self) -> bool:
        """Whether everything was read."""
        return not self._records

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"TestOutputTopic({self.topic!r}, size={len(self)})"
