"""What window stores and session stores have in common: keys with a time, kept in segments for as long as retained."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.record import Headers, RecordContext
from headrace.state.cache import StoreCache
from headrace.state.environment import StoreEnvironment
from headrace.state.metadata import STREAM_TIME, load_number, save_number
from headrace.state.port import BackendStore
from headrace.state.segments import Segments, default_interval
from headrace.state.store import Store
from headrace.topology.stores import StoreSpec

Entries = Iterator[tuple[bytes, bytes]]


class SegmentedStore(Store):
    """A store whose entries vanish once they are older than its stream time less the retention.

    An entry that the cache still has is seen although it is too old, as in Kafka Streams.
    """

    __slots__ = ("_by_time", "_retention", "_saved_stream_time", "_segments", "_stream_time")

    _ordered: BackendStore

    def __init__(self, spec: StoreSpec, ordered: BackendStore, environment: StoreEnvironment) -> None:
        super().__init__(spec, ordered, environment)
        self._retention = spec.retention_ms
        """An entry is seen while its time is later than the stream time less this."""
        self._stream_time = self._saved_stream_time = load_number(ordered, STREAM_TIME, -1)
        """The latest time written; what the cache still holds back does not count yet."""
        self._by_time: bool = spec.time_ordered
        cache = self._cache
        self._segments = Segments(
            ordered,
            spec.retention_ms,
            default_interval(spec.retention_ms),
            keep=None if cache is None else cache.entries.__contains__,
            sweeps=cache is None,
            begun_at=self._stream_time,
        )
        self._segments.expire(self._stream_time)

    def save_facts(self) -> None:
        """Keeps the stream time, and lets go of what is expired."""
        self._segments.sweep()
        if self._stream_time != self._saved_stream_time:
            save_number(self._ordered, STREAM_TIME, self._stream_time)
            self._saved_stream_time = self._stream_time

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        """Takes over a record of the changelog, unless it is expired by now."""
        time = self._time_of(key)
        if time > self._stream_time:
            self._stream_time = time
        if self._segments.admit(self._segments.id_of(time), self._stream_time):
            self._write(self._store_key(key, time), None if value is None else self._logged_form(value, timestamp))

    def approximate_count(self) -> int:
        """About how many entries there are."""
        self._segments.sweep()
        entries = len(self._ordered)
        return entries // 2 if self._by_time else entries

    def scan(self, after: bytes | None, from_ms: int, to_ms: int) -> Entries:
        """The entries of times within these, both included, behind a key of the ordered store, in their order."""
        earliest = self._earliest(from_ms)
        for segment in self._segments.between(earliest, to_ms):
            low, high = self._segments.prefix(segment), self._segments.prefix(segment + 1)
            if after is not None:
                low = max(low, after + b"\x00")
            for found, value in self._scan(low, high, False) if low < high else ():
                if earliest <= self._time_of(found) <= to_ms:
                    yield found, value

    def _logged_form(self, value: bytes, timestamp: int) -> bytes:
        """A value as the store keeps it, from the one in the changelog."""
        return value

    def _on_evicted(self) -> Callable[[bytes], None] | None:
        # The segments are made after the cache, whose entries they keep.
        def let_go(key: bytes) -> None:
            self._segments.let_go(key)

        return let_go

    def _store_key(self, key: bytes, time: int) -> bytes:
        """The key as the ordered store has it: behind its segment."""
        return self._segments.prefix(self._segments.id_of(time)) + key

    def _get(self, store_key: bytes, time: int) -> bytes | None:
        cache = self._cache
        if cache is not None:
            entry = cache.get(store_key)
            if entry is not None:
                return entry[0]
        return self._get_retained(store_key, time)

    def _get_retained(self, store_key: bytes, time: int) -> bytes | None:
        """What the ordered store has, unless it is too old to be seen."""
        return self._ordered.get(store_key) if time > self._stream_time - self._retention else None

    def _put(self, store_key: bytes, time: int, value: bytes | None, context: RecordContext) -> None:
        """Writes an entry, unless its segment is expired; the changelog and the listener get it in any case."""
        cache = self._cache
        if cache is None:
            if self._admit(time, context):
                self._write(store_key, value)
            self._log_update(store_key[8:], value, context)
            return
        before = None if store_key in cache.dirty else self._ordered.get(store_key)
        self._put_back(cache, store_key, time, value, before, context)

    def _put_back(
        self,
        cache: StoreCache,
        store_key: bytes,
        time: int,
        value: bytes | None,
        before: bytes | None,
        context: RecordContext,
    ) -> None:
        """Writes an entry and holds it back in the cache; `before` is the value it replaces."""
        segments = self._segments
        if value is None or self._by_time:
            self._write(store_key, value)
        else:
            self._ordered.put(store_key, value)
        segment = segments.id_of(time)
        if not segments.admit(segment, self._stream_time) and value is not None:
            segments.hold(segment)
        cache.put(store_key, value, before, context)

    def _admit(self, time: int, context: RecordContext) -> bool:
        """Moves the stream time on; whether an entry of this time is still retained, which is else a dropped record."""
        if time > self._stream_time:
            self._stream_time = time
        if self._segments.admit(self._segments.id_of(time), self._stream_time):
            return True
        if self._dropped is not None:
            self._dropped(context, f"store {self.name}: expired segment")
        return False

    def _write(self, store_key: bytes, value: bytes | None) -> None:
        ordered = self._ordered
        if value is None:
            ordered.delete(store_key)
            if self._by_time:
                ordered.delete(self._index_key(store_key))
        else:
            ordered.put(store_key, value)
            if self._by_time:
                ordered.put(self._index_key(store_key), b"")

    def _let_through(self, key: bytes, new: bytes | None, old: bytes | None, context: RecordContext) -> None:
        time = self._time_of(key)
        if time <= self._stream_time - self._retention:
            old = None
        if new is not None or old is not None or self._listener is None:
            self._admit(time, context)
        self._pass_on(key[8:], new, old, context)

    def _time_of(self, store_key: bytes) -> int:
        """The time that decides how long an entry is retained."""
        raise NotImplementedError

    def _earliest(self, time: int) -> int:
        """The first time of a search: without a cache nothing is seen before the retention."""
        if self._cache is not None:
            return max(time, 0)
        return max(time, self._stream_time - self._retention + 1, 0)

    def _is_hidden(self, store_key: bytes, time: int) -> bool:
        """Whether an entry found by a search is too old and not in the cache."""
        cache = self._cache
        return time <= self._stream_time - self._retention and (cache is None or store_key not in cache.entries)

    def _segment(self, segment: int, reverse: bool) -> Entries:
        return self._scan(self._segments.prefix(segment), self._segments.prefix(segment + 1), reverse)

    def _segment_by_time(self, segment: int, first: bytes, end: bytes | None) -> Entries:
        """The entries of a segment in the order of time, from one time to before another, both packed."""
        segments, ordered = self._segments, self._ordered
        if not self._by_time:
            found = sorted((self._index_key(key), key, value) for key, value in self._segment(segment, False))
            for index_key, key, value in found:
                if index_key[8:] >= first and (end is None or index_key[8:] < end):
                    yield key, value
            return
        prefix = segments.index_prefix(segment)
        high = segments.index_prefix(segment + 1) if end is None else prefix + end
        for index_key, _ in ordered.range(prefix + first, high):
            main_key = self._main_key(index_key)
            entry = ordered.get(main_key)
            if entry is not None:
                yield main_key, entry

    def _index_key(self, store_key: bytes) -> bytes:
        """The key of the index by time for a key of the store."""
        raise NotImplementedError

    def _main_key(self, index_key: bytes) -> bytes:
        """The key of the store for a key of the index by time."""
        raise NotImplementedError
