"""Kafka Streams' stores under the names of Headrace's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from py4j.java_gateway import JavaObject, get_field, is_instance_of

from headrace.record import ValueAndTimestamp
from headrace.windowed import Windowed
from tests.oracle.boxes import Boxes, JavaLong

_STATE = "org.apache.kafka.streams.state."
MAX_TIMESTAMP = 2**63 - 1

Pairs = Iterator[tuple[Any, Any]]


class Store:
    """The base: knows how to open what the Java store answers."""

    def __init__(self, java: JavaObject, boxes: Boxes) -> None:
        self._java = java
        self._boxes = boxes
        self.box = boxes.box

    def _value(self, value: Any) -> Any:
        """The bare value, also of a store that keeps its timestamp."""
        value = self._boxes.unbox(value)
        return value.value if isinstance(value, ValueAndTimestamp) else value

    def _pairs(self, iterator: JavaObject) -> Pairs:
        try:
            pairs = []
            while iterator.hasNext():
                pair = iterator.next()
                pairs.append((self._boxes.unbox(get_field(pair, "key")), self._value(get_field(pair, "value"))))
            return iter(pairs)
        finally:
            iterator.close()


class KeyValueStore(Store):
    """A key-value store, plain or timestamped."""

    def get(self, key: Any) -> Any:
        return self._value(self._java.get(self.box(key)))

    def put(self, key: Any, value: Any) -> None:
        self._java.put(self.box(key), self.box(value))

    def put_if_absent(self, key: Any, value: Any) -> Any:
        return self._value(self._java.putIfAbsent(self.box(key), self.box(value)))

    def delete(self, key: Any) -> Any:
        return self._value(self._java.delete(self.box(key)))

    def all(self) -> Pairs:
        return self._pairs(self._java.all())

    def range(self, start: Any, end: Any) -> Pairs:
        return self._pairs(self._java.range(self.box(start), self.box(end)))

    def prefix(self, prefix: str) -> Pairs:
        return self._pairs(self._java.prefixScan(prefix, self._boxes.common.serialization.StringSerializer()))


class WindowStore(Store):
    """A window store, plain or timestamped."""

    def put(self, key: Any, value: Any, start_ms: int) -> None:
        self._java.put(self.box(key), self.box(value), JavaLong(start_ms))

    def fetch(self, key: Any, from_ms: int, to_ms: int) -> Pairs:
        return self._pairs(self._java.fetch(self.box(key), JavaLong(from_ms), JavaLong(to_ms)))

    def all(self) -> Pairs:
        return self._pairs(self._java.all())


class SessionStore(Store):
    """A session store."""

    def put(self, session: Windowed[Any], value: Any) -> None:
        self._java.put(self._boxes.session(session), self.box(value))

    def remove(self, session: Windowed[Any]) -> None:
        self._java.remove(self._boxes.session(session))

    def fetch(self, key: Any) -> Pairs:
        return self._pairs(self._java.fetch(self.box(key)))

    def all(self) -> Pairs:
        return self._pairs(self._java.findSessions(None, None, JavaLong(0), JavaLong(MAX_TIMESTAMP)))


class VersionedStore(Store):
    """A versioned key-value store."""

    def put(self, key: Any, value: Any, timestamp: int) -> None:
        self._java.put(self.box(key), self.box(value), JavaLong(timestamp))

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp | None:
        if as_of is None:
            return self._answer(self._java.get(self.box(key)))
        return self._answer(self._java.get(self.box(key), JavaLong(as_of)))

    def delete(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        return self._answer(self._java.delete(self.box(key), JavaLong(timestamp)))

    def _answer(self, record: JavaObject | None) -> ValueAndTimestamp | None:
        return None if record is None else ValueAndTimestamp(self._boxes.unbox(record.value()), record.timestamp())


_KINDS: tuple[tuple[str, Callable[[JavaObject, Boxes], Store]], ...] = (
    ("VersionedKeyValueStore", VersionedStore),
    ("ReadOnlyKeyValueStore", KeyValueStore),
    ("ReadOnlyWindowStore", WindowStore),
    ("ReadOnlySessionStore", SessionStore),
)


def wrap_store(java: JavaObject, boxes: Boxes) -> Any:
    """The store under Headrace's names; None for a buffer that nobody outside can read."""
    for interface, kind in _KINDS:
        if is_instance_of(boxes.gateway, java, _STATE + interface):
            return kind(java, boxes)
    return None
