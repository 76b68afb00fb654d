"""Session stores: values by key and session."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from headrace.duration import MAX_MILLIS
from headrace.record import RecordContext
from headrace.serdes.forms.session_key import pack_session_key, unpack_session_key
from headrace.state.segmented import Entries, SegmentedStore
from headrace.state.store import is_inverted
from headrace.windowed import Window, Windowed

_pack_time = struct.Struct(">q").pack
_LAST_TIMES = _pack_time(MAX_MILLIS) * 2 + b"\x00"


class SessionStore(SegmentedStore):
    """Values by key and session; a session is retained by its end."""

    __slots__ = ()

    def put(self, windowed: Windowed[Any], value: Any, context: RecordContext) -> None:
        """Sets the value of the session; None deletes it."""
        window = self._window(windowed)
        key = pack_session_key(self._key(windowed.key), window.start, window.end)
        self._put(self._store_key(key, window.end), window.end, self._serialize_value(value), context)

    def remove(self, windowed: Windowed[Any], context: RecordContext) -> None:
        """Deletes the session."""
        window = self._window(windowed)
        key = pack_session_key(self._key(windowed.key), window.start, window.end)
        if self._cache is not None:
            self._put(self._store_key(key, window.end), window.end, None, context)
            return
        self._stream_time = max(self._stream_time, window.end)
        self._write(self._store_key(key, window.end), None)
        self._log_update(key, None, context)

    def fetch_one(self, key: Any, start: int, end: int) -> Any:
        """The value of the session with exactly these times."""
        packed = pack_session_key(self._key(key), start, end)
        value = self._get(self._store_key(packed, end), end)
        return None if value is None else self._deserialize_value(value)

    def fetch(self, key: Any, *, reverse: bool = False) -> Iterator[tuple[Windowed[Any], Any]]:
        """Every session of the key, in the order of their ends."""
        return self.find_sessions(key, 0, MAX_MILLIS, reverse=reverse)

    def find_sessions(
        self, key: Any, earliest_end: int, latest_start: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """The key's sessions that end no earlier and start no later than these times."""
        return self._find(self._key(key), self._earliest(earliest_end), latest_start, reverse)

    def find_sessions_between(self, earliest_end: int, latest_end: int) -> Iterator[tuple[Windowed[Any], Any]]:
        """The sessions of all keys that end within these times: by segment, end, start, key."""
        return self._read(self._search_by_time(earliest_end, min(latest_end, MAX_MILLIS)))

    def fetch_range(self, key_from: Any, key_to: Any, *, reverse: bool = False) -> Iterator[tuple[Windowed[Any], Any]]:
        """Every session of the keys from one to another, both included; None leaves an end open."""
        low = None if key_from is None else self._serialize_key(key_from)
        high = None if key_to is None else self._serialize_key(key_to)
        if is_inverted(self.name, low, high):
            return iter(())
        return self._read(self._search(reverse), low, high)

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Windowed[Any], Any]]:
        """Every session: by segment, key, end and start, or by segment and times in a store ordered by time."""
        return self._read(self._search(reverse))

    def _find(self, key: bytes, earliest: int, latest_start: int, reverse: bool) -> Iterator[tuple[Windowed[Any], Any]]:
        low = key + _pack_time(earliest) + bytes(8)
        high = key + _LAST_TIMES
        length = 8 + len(key) + 16
        for segment in self._segments.between(earliest, MAX_MILLIS, reverse=reverse):
            prefix = self._segments.prefix(segment)
            for found, value in self._scan(prefix + low, prefix + high, reverse):
                # All keys of the range begin with this one; the longer ones are others.
                if len(found) != length:
                    continue
                _, start, end = unpack_session_key(found)
                if end >= earliest and start <= latest_start and not self._is_hidden(found, end):
                    yield Windowed(self._deserialize_key(key), Window(start, end)), self._deserialize_value(value)

    def _search(self, reverse: bool) -> Entries:
        earliest = self._earliest(0)
        if self._by_time:
            entries = self._search_by_time(earliest, MAX_MILLIS)
            yield from list(entries)[::-1] if reverse else entries
            return
        for segment in self._segments.between(earliest, MAX_MILLIS, reverse=reverse):
            for found, value in self._segment(segment, reverse):
                if not self._is_hidden(found, unpack_session_key(found)[2]):
                    yield found, value

    def _search_by_time(self, earliest: int, latest: int) -> Entries:
        earliest = max(earliest, 0)
        if latest < earliest:
            return
        end = None if latest == MAX_MILLIS else _pack_time(latest + 1)
        for segment in self._segments.between(earliest, latest):
            yield from self._segment_by_time(segment, _pack_time(earliest), end)

    def _read(
        self, entries: Entries, low: bytes | None = None, high: bytes | None = None
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        for found, value in entries:
            key, start, end = unpack_session_key(found[8:])
            if (low is None or key >= low) and (high is None or key <= high):
                yield Windowed(self._deserialize_key(key), Window(start, end)), self._deserialize_value(value)

    def _window(self, windowed: Windowed[Any] | None) -> Window:
        if windowed is None:
            raise self.null("session key")
        return windowed.window

    def _time_of(self, store_key: bytes) -> int:
        return unpack_session_key(store_key)[2]

    def _listener_key(self, key: bytes) -> Windowed[Any]:
        packed, start, end = unpack_session_key(key)
        return Windowed(self._deserialize_key(packed), Window(start, end))

    def _index_key(self, store_key: bytes) -> bytes:
        segment = int.from_bytes(store_key[:8], "big")
        return b"".join((self._segments.index_prefix(segment), store_key[-16:], store_key[8:-16]))

    def _main_key(self, index_key: bytes) -> bytes:
        segment = int.from_bytes(index_key[:8], "big") & MAX_MILLIS
        return b"".join((self._segments.prefix(segment), index_key[24:], index_key[8:24]))
