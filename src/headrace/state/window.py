"""Window stores: values by key and the start of a time window, plain or with timestamps."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headrace.duration import MAX_MILLIS
from headrace.record import Headers, RecordContext
from headrace.serdes.forms.timestamped import pack_timestamp
from headrace.serdes.forms.window_key import pack_window_store_key, unpack_window_store_key, window_end
from headrace.state.environment import StoreEnvironment
from headrace.state.metadata import load_number, save_number
from headrace.state.overlay import OverlayStore
from headrace.state.port import BackendStore
from headrace.state.segmented import Entries, SegmentedStore
from headrace.state.store import is_inverted
from headrace.state.timestamped import Add, Initial, TimestampedStore
from headrace.topology.stores import StoreSpec
from headrace.windowed import Window, Windowed

_NUMBER = "number"
_LOGGED_NUMBER = "logged-number"
_LAST_NUMBER = 0x7FFFFFFF
_SUFFIX = 12
"""What a key of the ordered store has behind the user's: the start and the number."""
_USERS_KEY = slice(8, -_SUFFIX)
"""Where the user's key is, behind the segment's prefix."""
_NONE: Iterator[Any] = iter(())
_pack_time = struct.Struct(">q").pack
_unpack_time = struct.Struct(">q").unpack_from


class WindowStore(SegmentedStore):
    """Values by key and window; several for the same key and window where duplicates are retained."""

    __slots__ = (
        "_after_key",
        "_before_key",
        "_duplicates",
        "_families",
        "_logged_number",
        "_number",
        "_recent_place",
        "_recent_start",
        "_saved_numbers",
        "_size",
    )

    put_in: ClassVar[frozenset[str]] = frozenset({"put", "windows_of", "_put_window", "_add", "_log_update"})
    """Methods whose code compiled tasks put in, instead of calling them."""
    tries_direct = True

    def __init__(self, spec: StoreSpec, ordered: BackendStore, environment: StoreEnvironment) -> None:
        super().__init__(spec, ordered, environment)
        self._size = spec.window_size_ms
        if spec.time_ordered:
            self._retention += 1
        self._duplicates = spec.retain_duplicates
        if self._duplicates and isinstance(ordered, OverlayStore):
            ordered.keys_are_new = True  # each has a number of its own
        self._families: Mapping[bytes, bytes | list[bytes]] | None = None
        """Keys of the ordered store by the user's key, from the first time that windows of a key are asked for."""
        self._number = load_number(ordered, _NUMBER, 0)
        """Tells duplicates apart: the number of the last value put, 0 where duplicates are not retained."""
        self._logged_number = load_number(ordered, _LOGGED_NUMBER, 0)
        """The number of the last value or deletion put."""
        self._saved_numbers = (self._number, self._logged_number)
        self._recent_start: int | None = None
        """The start of the window last asked for, and what keys of the ordered store have around theirs."""
        self._before_key = self._after_key = b""
        self._recent_place = (b"", b"")
        """A key of that window with the key of the ordered store: who updates a window names it twice."""

    def put(self, key: Any, value: Any, start: int, context: RecordContext) -> None:
        """Sets the value of the key in the window that starts then; None deletes it."""
        if key is None:
            raise self.null("key")
        try:
            packed_key = self._serialize_key(key)
            packed = self._serialize_value(value)
        except Exception:
            packed_key, packed = self._key(key), self._packed_value(value)
        self._put_window(packed_key, packed, start, context)

    def fetch_one(self, key: Any, start: int) -> Any:
        """The value of the key in the window that starts then."""
        packed_key = self._recent_packed if key is self._recent_key else self._key(key)
        place = self._place(packed_key, start, self._number)
        cached = None if self._cache is None else self._cache.get(place)
        value = self._get_retained(place, start) if cached is None else cached[0]
        return None if value is None else self._value_of(value)

    def fetch(self, key: Any, from_ms: int, to_ms: int, *, reverse: bool = False) -> Iterator[tuple[int, Any]]:
        """Start and value of the key's windows that start within these times, both included."""
        if not reverse:
            return self.windows_of(key, from_ms, to_ms)
        return self._fetch(self._key(key), self._earliest(from_ms), min(to_ms, MAX_MILLIS), reverse)

    def windows_of(self, key: Any, earliest: int, latest: int) -> Iterator[tuple[int, Any]]:
        """What `fetch` finds, the earliest first."""
        if self._by_time or self._cache is not None:
            return self._fetch(self._key(key), self._earliest(earliest), min(latest, MAX_MILLIS), False)
        if key is None:
            raise self.null("key")
        try:
            packed = self._serialize_key(key)
        except Exception:
            packed = self._key(key)
        expired = self._stream_time - self._retention
        if earliest <= expired:
            earliest = expired + 1
        if earliest < 0:
            earliest = 0
        if latest > MAX_MILLIS:
            latest = MAX_MILLIS
        families = self._families
        if families is None:
            families = self._families = self._ordered.families(_USERS_KEY)
        places = families.get(packed)
        if earliest <= self._segments.begun_at:
            places = self._with_earlier(places, packed, earliest, latest)
        return _NONE if places is None else self._read_places(places, earliest, latest)

    def fetch_range(
        self, key_from: Any, key_to: Any, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """The windows within these times of the keys from one to another, all ends included."""
        low = None if key_from is None else self._serialize_key(key_from)
        high = None if key_to is None else self._serialize_key(key_to)
        if is_inverted(self.name, low, high):
            return iter(())
        return self._read(self._search(from_ms, to_ms, reverse), low, high)

    def fetch_all(self, from_ms: int, to_ms: int, *, reverse: bool = False) -> Iterator[tuple[Windowed[Any], Any]]:
        """The windows of all keys that start within these times, both included."""
        return self._read(self._search(from_ms, to_ms, reverse))

    def fetch_all_by_time(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed[Any], Any]]:
        """The windows of all keys that start within these times: by segment, start, key."""
        return self._read(self._search_by_time(from_ms, to_ms))

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Windowed[Any], Any]]:
        """Every window: by segment, key and start, or by segment, start and key in a store ordered by time."""
        return self._read(self._search(0, MAX_MILLIS, reverse))

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        """Takes over a record of the changelog, unless it is expired by now."""
        super().restore(key, value, timestamp, headers)
        if self._duplicates:
            number = unpack_window_store_key(key)[2]
            # Not simply the last one: Kafka Streams counts from 1 again whenever it is started.
            self._logged_number = max(self._logged_number, number)
            if value is not None:
                self._number = number

    def save_facts(self) -> None:
        """Keeps the stream time and the numbers of duplicates."""
        super().save_facts()
        numbers = (self._number, self._logged_number)
        if numbers != self._saved_numbers:
            save_number(self._ordered, _NUMBER, self._number)
            save_number(self._ordered, _LOGGED_NUMBER, self._logged_number)
            self._saved_numbers = numbers

    def _put_window(self, key: bytes, value: bytes | None, start: int, context: RecordContext) -> None:
        if not self._duplicates:
            self._put(self._place(key, start, 0), start, value, context)
            return
        # Nothing tells which of the duplicates a deletion means, so it is only logged. The changelog counts
        # deletions too, and an entry has the number that it has there, so that both have the same keys.
        self._logged_number = (self._logged_number + 1) & _LAST_NUMBER
        numbered = pack_window_store_key(key, start, self._logged_number)
        if value is not None:
            self._number = self._logged_number
            self._add(numbered, start, value, context)
        self._log_update(numbered, value, context)

    def _packed_value(self, value: Any) -> bytes | None:
        return self._serialize_value(value)

    def _place(self, key: bytes, start: int, number: int) -> bytes:
        """The key of the ordered store for a window."""
        if number:
            return self._store_key(pack_window_store_key(key, start, number), start)
        if start != self._recent_start:
            self._before_key = self._store_key(b"", start)
            self._after_key = pack_window_store_key(b"", start)
            self._recent_start = start
        elif key is self._recent_place[0]:
            return self._recent_place[1]
        place = self._before_key + key + self._after_key
        self._recent_place = (key, place)
        return place

    def _add(self, key: bytes, start: int, value: bytes, context: RecordContext) -> None:
        segments = self._segments
        if start > self._stream_time:
            self._stream_time = start
        if segments.recent_first <= start < segments.recent_end and self._stream_time < segments.expires_at:
            if self._by_time:
                self._write(segments.recent_prefix + key, value)
            else:
                self._ordered.put(segments.recent_prefix + key, value)
        elif self._admit(start, context):
            self._write(self._store_key(key, start), value)

    def _fetch(self, key: bytes, earliest: int, latest: int, reverse: bool) -> Iterator[tuple[int, Any]]:
        if latest < earliest:
            return
        # Backwards, a cache is searched down to the beginning of the segment, and what it has there counts as used.
        low = pack_window_store_key(key, 0 if reverse and self._cache is not None else earliest, 0)
        high = pack_window_store_key(key, latest, _LAST_NUMBER) + b"\x00"
        length = 8 + len(key) + 12
        value_of = self._value_of
        for segment in self._segments.between(earliest, latest, reverse=reverse):
            prefix = self._segments.prefix(segment)
            for found, value in self._scan(prefix + low, prefix + high, reverse):
                # All keys of the range begin with this one; the longer ones are others.
                if len(found) != length:
                    continue
                start: int = _unpack_time(found, length - 12)[0]
                if earliest <= start <= latest and not self._is_hidden(found, start):
                    yield start, value_of(value)

    def _with_earlier(
        self, places: bytes | list[bytes] | None, key: bytes, earliest: int, latest: int
    ) -> bytes | list[bytes] | None:
        """Places of the key's windows, with those that were there when the store was opened."""
        if latest < earliest:
            return None
        low, high = pack_window_store_key(key, earliest), pack_window_store_key(key, latest, _LAST_NUMBER) + b"\x00"
        length = 8 + len(key) + _SUFFIX
        earlier = [
            place
            for first, end, prefix in self._segments.spans
            if first <= latest and earliest < end
            for place in self._ordered.in_base(prefix + low, prefix + high)
            if len(place) == length
        ]
        if not earlier or places is None:
            return earlier or places
        return list({*earlier, *([places] if isinstance(places, bytes) else places)})

    def _read_places(self, places: bytes | list[bytes], earliest: int, latest: int) -> Iterator[tuple[int, Any]]:
        """Start and value of the windows at these places that start within these times, in order."""
        get, value_of = self._ordered.get, self._value_of
        for place in (places,) if isinstance(places, bytes) else sorted(places):
            start: int = _unpack_time(place, len(place) - _SUFFIX)[0]
            if earliest <= start <= latest and (value := get(place)) is not None:
                yield start, value_of(value)

    def _search(self, from_ms: int, to_ms: int, reverse: bool) -> Entries:
        if self._by_time:
            entries = self._search_by_time(from_ms, to_ms)
            return iter(list(entries)[::-1]) if reverse else entries
        return self._search_by_key(from_ms, to_ms, reverse)

    def _search_by_key(self, from_ms: int, to_ms: int, reverse: bool) -> Entries:
        earliest, latest = self._earliest(from_ms), min(to_ms, MAX_MILLIS)
        if latest < earliest:
            return
        for segment in self._segments.between(earliest, latest, reverse=reverse):
            for found, value in self._segment(segment, reverse):
                start: int = _unpack_time(found, len(found) - 12)[0]
                if earliest <= start <= latest and not self._is_hidden(found, start):
                    yield found, value

    def _search_by_time(self, from_ms: int, to_ms: int) -> Entries:
        earliest, latest = self._earliest(from_ms), min(to_ms, MAX_MILLIS)
        if latest < earliest:
            return
        end = None if latest == MAX_MILLIS else _pack_time(latest + 1)
        for segment in self._segments.between(earliest, latest):
            for found, value in self._segment_by_time(segment, _pack_time(earliest), end):
                if not self._is_hidden(found, _unpack_time(found, len(found) - 12)[0]):
                    yield found, value

    def _read(
        self, entries: Entries, low: bytes | None = None, high: bytes | None = None
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        value_of, windowed = self._value_of, self._windowed
        for found, value in entries:
            key, start, _ = unpack_window_store_key(found[8:])
            if (low is None or key >= low) and (high is None or key <= high):
                yield windowed(key, start), value_of(value)

    def _windowed(self, key: bytes, start: int) -> Windowed[Any]:
        return Windowed(self._deserialize_key(key), Window(start, window_end(start, self._size)))

    def _time_of(self, store_key: bytes) -> int:
        time: int = _unpack_time(store_key, len(store_key) - 12)[0]
        return time

    def _listener_key(self, key: bytes) -> Windowed[Any]:
        packed, start, _ = unpack_window_store_key(key)
        return self._windowed(packed, start)

    def _listener_value(self, value: bytes) -> Any:
        return self._value_of(value)

    def _value_of(self, value: bytes) -> Any:
        return self._deserialize_value(value)

    def _index_key(self, store_key: bytes) -> bytes:
        segment = int.from_bytes(store_key[:8], "big")
        return b"".join((self._segments.index_prefix(segment), store_key[-12:-4], store_key[8:-12], store_key[-4:]))

    def _main_key(self, index_key: bytes) -> bytes:
        segment = int.from_bytes(index_key[:8], "big") & MAX_MILLIS
        return b"".join((self._segments.prefix(segment), index_key[16:-4], index_key[8:16], index_key[-4:]))


class TimestampedWindowStore(TimestampedStore, WindowStore):
    """Values with timestamps by key and window; each value read is a `ValueAndTimestamp`."""

    __slots__ = ()

    def put(  # type: ignore[override]
        self, key: Any, value: Any, timestamp: int, start: int, context: RecordContext
    ) -> None:
        """Sets the value of the key in the window that starts then; None deletes it."""
        self._settle()
        packed_key = self._recent_packed if key is self._recent_key else self._key(key)
        packed = self._serialize_value(value)
        stamped = None if packed is None else pack_timestamp(timestamp) + packed
        if self._duplicates:
            self._put_window(packed_key, stamped, start, context)
        else:
            self._put(self._place(packed_key, start, 0), start, stamped, context)

    def revise(self, key: Any, value: Any, start: int, context: RecordContext, initial: Initial, add: Add) -> None:
        """Puts `add(key, value, old)`, where there is no old value of `initial()`, with the later of the times.

        What `fetch_one` and `put` do, in fewer steps; only for stores without duplicates.
        """
        try:
            packed_key = self._serialize_key(key)
        except Exception:
            packed_key = self._key(key)
        if start == self._recent_start:
            place = self._before_key + packed_key + self._after_key
        else:
            place = self._place(packed_key, start, 0)
        self._revise(place, start, key, value, context, initial, add)

    def fetch_one(self, key: Any, start: int) -> Any:
        """The value of the key in the window that starts then."""
        self._settle()
        return super().fetch_one(key, start)

    def approximate_count(self) -> int:
        """About how many entries there are."""
        self._settle()
        return super().approximate_count()

    def _earliest(self, time: int) -> int:
        # Each search begins with this.
        self._settle()
        return super()._earliest(time)

    def _read_at(self, place: bytes, start: int) -> bytes | None:
        return self._get(place, start)

    def _write_at(self, place: bytes, start: int, value: bytes | None, context: RecordContext) -> None:
        self._put(place, start, value, context)

    def _write_settled(self, place: bytes, value: bytes, before: bytes | None, context: RecordContext) -> None:
        assert self._cache is not None
        self._put_back(self._cache, place, self._time_of(place), value, before, context)
