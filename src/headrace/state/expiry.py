"""A time to live for the entries of an ordered store."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from headrace.serdes.forms.timestamped import timestamp_of
from headrace.state.metadata import STREAM_TIME, load_number, save_number
from headrace.state.port import OrderedStore

_ENTRY = b"\x00"
_BY_TIME = b"\x01"
# Signed timestamps in the order of their bytes.
_pack_time = struct.Struct(">Q").pack
_OFFSET = 2**63


class ExpiringStore:
    """An ordered store of timestamped values in another one, with an index by time beside the entries.

    Its clock is the largest timestamp put. What is older than that by more than the time to live
    does not show, and `expire` removes it at a cost that follows what is removed.
    """

    __slots__ = ("_ordered", "_saved", "_ttl", "stream_time")

    def __init__(self, ordered: OrderedStore, ttl_ms: int) -> None:
        self._ordered = ordered
        self._ttl = ttl_ms
        self.stream_time = self._saved = load_number(ordered, STREAM_TIME, -1)

    def get(self, key: bytes) -> bytes | None:
        """The value of the key, unless it is too old."""
        value = self._ordered.get(_ENTRY + key)
        if value is None or timestamp_of(value) < self.stream_time - self._ttl:
            return None
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """Sets the value of the key; its first 8 bytes are its time."""
        time = timestamp_of(value)
        if time > self.stream_time:
            self.stream_time = time
        ordered = self._ordered
        entry = _ENTRY + key
        before = ordered.get(entry)
        if before is None:
            ordered.put(_index_key(time, key), b"")
        elif (time_before := timestamp_of(before)) != time:
            ordered.delete(_index_key(time_before, key))
            ordered.put(_index_key(time, key), b"")
        ordered.put(entry, value)

    def delete(self, key: bytes) -> None:
        """Removes the key, if it is there."""
        ordered = self._ordered
        entry = _ENTRY + key
        before = ordered.get(entry)
        if before is not None:
            ordered.delete(_index_key(timestamp_of(before), key))
            ordered.delete(entry)

    def range(self, low: bytes | None, high: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """The entries that are not too old."""
        first = _ENTRY if low is None else _ENTRY + low
        end = _BY_TIME if high is None else _ENTRY + high
        return self._live(self._ordered.range(first, end, reverse=reverse))

    def __len__(self) -> int:
        return len(self._ordered) // 2

    def meta_get(self, name: str) -> bytes | None:
        """A fact kept beside the entries."""
        return self._ordered.meta_get(name)

    def meta_put(self, name: str, value: bytes) -> None:
        """Keeps a fact beside the entries."""
        self._ordered.meta_put(name, value)

    def expire(self) -> Iterator[bytes]:
        """Removes what is too old, the oldest first, and yields its keys."""
        oldest = self.stream_time - self._ttl
        if oldest <= -_OFFSET:
            return
        ordered = self._ordered
        for index_key, _ in ordered.range(_BY_TIME, _BY_TIME + _pack_time(oldest + _OFFSET)):
            key = index_key[9:]
            ordered.delete(index_key)
            ordered.delete(_ENTRY + key)
            yield key

    def save(self) -> None:
        """Keeps the clock for when the store is opened again."""
        if self.stream_time != self._saved:
            save_number(self._ordered, STREAM_TIME, self.stream_time)
            self._saved = self.stream_time

    def _live(self, entries: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for entry, value in entries:
            if timestamp_of(value) >= self.stream_time - self._ttl:
                yield entry[1:], value


def _index_key(time: int, key: bytes) -> bytes:
    return _BY_TIME + _pack_time(time + _OFFSET) + key
