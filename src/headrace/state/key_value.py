"""Key-value stores: plain ones for processors, and those with timestamps that tables are kept in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from headrace.errors import StoreError
from headrace.record import NO_HEADERS, Headers, RecordContext, ValueAndTimestamp, value_and_timestamp
from headrace.serdes.forms.timestamped import pack_timestamp
from headrace.state.environment import StoreEnvironment
from headrace.state.expiry import ExpiringStore
from headrace.state.port import OrderedStore, after_prefix
from headrace.state.put_result import LATEST
from headrace.state.store import Store, is_inverted
from headrace.state.timestamped import Add, Initial, TimestampedStore
from headrace.topology.stores import StoreSpec


class BytesKeyValueStore(Store):
    """The part of a key-value store that works on bytes."""

    __slots__ = ("_absent",)

    def __init__(self, spec: StoreSpec, ordered: OrderedStore, environment: StoreEnvironment) -> None:
        super().__init__(spec, ordered, environment)
        self._absent: bytes | None = None
        """The key that was last looked for in vain, until something is put: who updates a value asks for it first."""

    def approximate_count(self) -> int:
        """How many keys there are."""
        return len(self._ordered)

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        """Takes over a record of the changelog."""
        if value is None:
            self._ordered.delete(key)
        else:
            self._ordered.put(key, self._logged_form(value, timestamp))

    def _logged_form(self, value: bytes, timestamp: int) -> bytes:
        """A value as the store keeps it, from the one in the changelog."""
        return value

    def _get(self, key: bytes) -> bytes | None:
        cache = self._cache
        if cache is None:
            return self._ordered.get(key)
        if cache.entries:
            entry = cache.get(key)
            if entry is not None:
                return entry[0]
        value = self._ordered.get(key)
        if value is None:
            self._absent = key
        else:
            cache.remember(key, value)
        return value

    def _put(self, key: bytes, value: bytes | None, context: RecordContext) -> None:
        cache = self._cache
        ordered = self._ordered
        if cache is None:
            if value is None:
                ordered.delete(key)
            else:
                ordered.put(key, value)
            self._log_update(key, value, context)
            return
        before = None if key is self._absent or key in cache.dirty else ordered.get(key)
        self._absent = None
        if value is None:
            ordered.delete(key)
        else:
            ordered.put(key, value)
        cache.put(key, value, before, context)

    def _range(self, low: Any, high: Any, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        first = None if low is None else self._serialize_key(low)
        last = None if high is None else self._serialize_key(high)
        if is_inverted(self.name, first, last):
            return iter(())
        return self._scan(first, None if last is None else last + b"\x00", reverse)

    def _with_prefix(self, prefix: Any, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        if prefix is None:
            raise self.null("prefix")
        first = prefix if isinstance(prefix, bytes) else self._serialize_key(prefix)
        return self._scan(first, after_prefix(first), reverse)


class KeyValueStore(BytesKeyValueStore):
    """Values by key."""

    __slots__ = ()

    def __init__(self, spec: StoreSpec, ordered: OrderedStore, environment: StoreEnvironment) -> None:
        if spec.ttl_ms is not None:
            raise StoreError(
                f"Store {spec.name}: a time to live needs values with timestamps, which a plain key-value store "
                "does not keep; use a table's store, or leave ttl out"
            )
        super().__init__(spec, ordered, environment)

    def get(self, key: Any) -> Any:
        """The value of the key."""
        value = self._get(self._key(key))
        return None if value is None else self._deserialize_value(value)

    def put(self, key: Any, value: Any, context: RecordContext) -> None:
        """Sets the value of the key; None deletes it."""
        self._put(self._key(key), self._serialize_value(value), context)

    def put_if_absent(self, key: Any, value: Any, context: RecordContext) -> Any:
        """Sets the value unless the key has one, which is the answer."""
        packed = self._key(key)
        present = self._get(packed)
        if present is not None:
            return self._deserialize_value(present)
        self._put(packed, self._serialize_value(value), context)
        return None

    def delete(self, key: Any, context: RecordContext) -> Any:
        """Deletes the key; the answer is the value it had."""
        packed = self._key(key)
        old = self._get(packed)
        self._put(packed, None, context)
        return None if old is None else self._deserialize_value(old)

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """Every key and value, in the order of the serialized keys."""
        return self._read(self._scan(None, None, reverse))

    def range(self, low: Any, high: Any, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """The keys from `low` to `high`, both included; None leaves an end open."""
        return self._read(self._range(low, high, reverse))

    def prefix(self, prefix: Any, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """The keys whose bytes begin with those of the prefix, which may be given as bytes."""
        return self._read(self._with_prefix(prefix, reverse))

    def _read(self, entries: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[Any, Any]]:
        deserialize_key, deserialize_value = self._deserialize_key, self._deserialize_value
        for key, value in entries:
            yield deserialize_key(key), deserialize_value(value)


class TimestampedKeyValueStore(TimestampedStore, BytesKeyValueStore):
    """Values with timestamps by key; with a time to live, those that are too old are gone."""

    __slots__ = ("_expiring",)

    put_in: ClassVar[frozenset[str]] = TimestampedStore.put_in | {"get", "_read_at", "_get"}

    def __init__(self, spec: StoreSpec, ordered: OrderedStore, environment: StoreEnvironment) -> None:
        self._expiring = None if spec.ttl_ms is None else ExpiringStore(ordered, spec.ttl_ms)
        super().__init__(spec, ordered if self._expiring is None else self._expiring, environment)

    def get(self, key: Any) -> ValueAndTimestamp | None:
        """The value of the key, and its time."""
        if self._live is not None and self._live.held:
            self._settle()
        packed_key = self._recent_packed if key is self._recent_key else self._key(key)
        packed = self._read_at(packed_key, 0)
        return None if packed is None else self._value_of(packed)

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        """Not for this kind of store."""
        raise StoreError(f"Store {self.name}: only versioned stores can tell the value at an earlier time")

    def put(self, key: Any, value: Any, timestamp: int, context: RecordContext) -> int:
        """Sets the value of the key; None deletes it. It always is the latest."""
        if self._live is not None and self._live.held:
            self._settle()
        packed_key = self._recent_packed if key is self._recent_key else self._key(key)
        packed = self._serialize_value(value)
        self._put(packed_key, None if packed is None else pack_timestamp(timestamp) + packed, context)
        return LATEST

    def revise(self, key: Any, value: Any, context: RecordContext, initial: Initial | None, add: Add) -> None:
        """Puts `add(key, value, old)`, with the later of the times: what `get` and `put` do, in fewer steps.

        Where there is no old value it is that of `initial()`; without `initial`, the record's value is the first.
        """
        try:
            place = self._serialize_key(key)
        except Exception:
            place = self._key(key)
        self._revise(place, 0, key, value, context, initial, add)

    def put_if_absent(self, key: Any, value: Any, timestamp: int, context: RecordContext) -> ValueAndTimestamp | None:
        """Sets the value unless the key has one, which is the answer."""
        present = self.get(key)
        if present is None:
            self.put(key, value, timestamp, context)
        return present

    def delete(self, key: Any, context: RecordContext) -> ValueAndTimestamp | None:
        """Deletes the key; the answer is the value it had."""
        old = self.get(key)
        self._put(self._key(key), None, context)
        return old

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        """Every key and value, in the order of the serialized keys."""
        return self._read(self._scan(None, None, reverse))

    def range(self, low: Any, high: Any, *, reverse: bool = False) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        """The keys from `low` to `high`, both included; None leaves an end open."""
        return self._read(self._range(low, high, reverse))

    def prefix(self, prefix: Any, *, reverse: bool = False) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        """The keys whose bytes begin with those of the prefix, which may be given as bytes."""
        return self._read(self._with_prefix(prefix, reverse))

    def flush(self) -> None:
        """Lets through what the cache holds back, then removes what is too old."""
        super().flush()
        if self._expiring is not None:
            self.expire()

    def flush_and_forget(self) -> None:
        """The same, for a store that is closed next: what was held as objects need not pass through the cache."""
        live, cache, log = self._live, self._cache, self._log
        if live is not None and cache is not None and not cache.dirty:
            live.suspend()
            make, serialize, put = live.form.make, self._serialize_value, self._ordered.put
            flushed = []
            for place, (plain, timestamp, before, context) in live.take().items():
                value = make(plain)
                packed = serialize(value)
                assert packed is not None
                put(place, pack_timestamp(timestamp) + packed)
                flushed.append((place, value, packed, timestamp, before, context))
            # What it remembers are the values before, and who listens may ask for those of now.
            cache.clear()
            self._absent = None
            listener, sends_old, deserialize_key = self._listener, self._send_old, self._deserialize_key
            for place, value, packed, timestamp, before, context in flushed:
                if log is not None:
                    log(place, packed, timestamp, context.headers if self._logs_headers else NO_HEADERS)
                if listener is not None:
                    old = self._value_of(before) if sends_old and before is not None else None
                    listener(deserialize_key(place), value_and_timestamp((value, timestamp)), old, context)
        self.flush()

    def save_facts(self) -> None:
        """Keeps the clock of the time to live."""
        if self._expiring is not None:
            self._expiring.save()

    def expire(self) -> int:
        """Removes what has outlived its time, with a tombstone each in the changelog; answers how many."""
        expiring, cache, log = self._expiring, self._cache, self._log
        if expiring is None:
            return 0
        count = 0
        for key in expiring.expire():
            count += 1
            if cache is not None:
                cache.forget(key)
            if log is not None:
                log(key, None, expiring.stream_time, NO_HEADERS)
        return count

    def approximate_count(self) -> int:
        """How many keys there are."""
        self._settle()
        return super().approximate_count()

    def _scan(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        self._settle()
        return super()._scan(low, high, reverse)

    def _read_at(self, place: bytes, start: int) -> bytes | None:
        if self._expiring is None:
            return self._get(place)
        return self._ordered.get(place)

    def _write_at(self, place: bytes, start: int, value: bytes | None, context: RecordContext) -> None:
        self._put(place, value, context)

    def _write_settled(self, place: bytes, value: bytes, before: bytes | None, context: RecordContext) -> None:
        assert self._cache is not None
        self._absent = None
        self._ordered.put(place, value)
        self._cache.put(place, value, before, context)

    def _read(self, entries: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        deserialize_key, value_of = self._deserialize_key, self._value_of
        for key, value in entries:
            yield deserialize_key(key), value_of(value)
