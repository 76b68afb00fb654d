"""The buffer of `suppress`: the latest update of each key, in the order of the times they wait for."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from headrace.duration import MAX_MILLIS
from headrace.record import NO_HEADERS, Change, Headers, RecordContext
from headrace.serdes.forms.buffer_value import (
    SUPPRESS_CHANGELOG_HEADERS,
    BufferValue,
    pack_buffer_value,
    pack_buffered,
    suppressed_size,
    unpack_buffer_value,
)
from headrace.serdes.forms.suppressed import unpack_suppressed
from headrace.state.environment import StoreEnvironment
from headrace.state.java_order import HashOrder
from headrace.state.metadata import load_number, save_number
from headrace.state.port import OrderedStore
from headrace.state.store import Store
from headrace.topology.stores import StoreSpec

Emit = Callable[[Any, Change, RecordContext], None]

_TIMES = b"\x00"
_UPDATES = b"\x01"
_END = b"\x02"
_SIZE = "size"
_RECORDS = "records"
_TIME = struct.Struct(">q")


class SuppressBuffer(Store):
    """Updates that are held back. A key keeps the time of its first update for as long as it waits."""

    __slots__ = ("_dirty", "_order", "_saved", "buffer_size", "min_timestamp", "num_records")

    def __init__(self, spec: StoreSpec, ordered: OrderedStore, environment: StoreEnvironment) -> None:
        super().__init__(spec, ordered, StoreEnvironment(environment.log, None, environment.dropped))
        self._dirty: dict[bytes, None] = {}
        """The keys changed since the last flush, in the order of their first change."""
        self._order = HashOrder()
        self.num_records = load_number(ordered, _RECORDS, 0)
        """How many keys wait."""
        self.buffer_size = load_number(ordered, _SIZE, 0)
        """How many bytes Kafka Streams counts for them."""
        self._saved = (self.num_records, self.buffer_size)
        self.min_timestamp = self._first_time()
        """The earliest time that a key waits for; the largest there is where none waits."""

    def put(self, time: int, key: Any, change: Change, context: RecordContext) -> None:
        """Holds an update back until that time, or that of the update it replaces."""
        if change is None:
            raise self.null("value")
        packed_key = self._serialize_key(key)
        old = self._serialize_value(change.old)
        buffered = self._find(packed_key)
        if buffered is None:
            value = BufferValue(old, old, self._serialize_value(change.new), context)
            update_key = _UPDATES + _TIME.pack(time) + packed_key
            self._ordered.put(_TIMES + packed_key, _TIME.pack(time))
            self.num_records += 1
            self.min_timestamp = min(self.min_timestamp, time)
        else:
            update_key, before = buffered
            value = BufferValue(before.prior, old, self._serialize_value(change.new), context)
            self.buffer_size -= suppressed_size(packed_key, before)
        self._ordered.put(update_key, pack_buffer_value(value))
        self.buffer_size += suppressed_size(packed_key, value)
        if self._log is not None:
            self._dirty[packed_key] = None

    def evict_while(self, predicate: Callable[[], bool], emit: Emit) -> None:
        """Emits and removes updates, the earliest first, for as long as the predicate holds."""
        ordered = self._ordered
        while predicate():
            entry = next(ordered.range(_UPDATES, _END), None)
            if entry is None:
                return
            update_key, packed = entry
            packed_key = update_key[9:]
            value = unpack_buffer_value(packed)[0]
            change = Change(self._value_of(value.new), self._value_of(value.old))
            emit(self._deserialize_key(packed_key), change, value.context)
            ordered.delete(update_key)
            ordered.delete(_TIMES + packed_key)
            if self._log is not None:
                self._dirty[packed_key] = None
            self.num_records -= 1
            self.buffer_size -= suppressed_size(packed_key, value)
            self.min_timestamp = self._first_time()

    def prior_value(self, key: Any) -> tuple[bool, Any]:
        """Whether the key waits, and the value it had before all that waits."""
        buffered = self._find(self._serialize_key(key))
        if buffered is None:
            return False, None
        return True, self._value_of(buffered[1].prior)

    def flush(self) -> None:
        """Logs each key that has changed: the update that waits, or a tombstone."""
        log = self._log
        if self._dirty and log is not None:
            for packed_key in self._order.of(self._dirty):
                buffered = self._find(packed_key)
                if buffered is None:
                    log(packed_key, None, None, NO_HEADERS)
                else:
                    time: int = _TIME.unpack_from(buffered[0], 1)[0]
                    log(packed_key, pack_buffered(buffered[1], time), None, SUPPRESS_CHANGELOG_HEADERS)
            self._dirty.clear()
        self.save_facts()

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        """Takes over a record of the changelog: the update of a key that waits, or that none waits any more."""
        buffered = self._find(key)
        prior = None
        if buffered is not None:
            update_key, before = buffered
            prior = before.prior
            self._ordered.delete(update_key)
            self._ordered.delete(_TIMES + key)
            self.num_records -= 1
            self.buffer_size -= suppressed_size(key, before)
        if value is not None:
            # An update that came after its predecessor had left has a time of its own, so the record's is the one.
            update, time = unpack_suppressed(value, timestamp, headers, prior)
            self._ordered.put(_UPDATES + _TIME.pack(time) + key, pack_buffer_value(update))
            self._ordered.put(_TIMES + key, _TIME.pack(time))
            self.num_records += 1
            self.buffer_size += suppressed_size(key, update)

    def save_facts(self) -> None:
        """Keeps how many records wait, and how many bytes they have."""
        if (self.num_records, self.buffer_size) != self._saved:
            save_number(self._ordered, _RECORDS, self.num_records)
            save_number(self._ordered, _SIZE, self.buffer_size)
            self._saved = (self.num_records, self.buffer_size)

    def _find(self, packed_key: bytes) -> tuple[bytes, BufferValue] | None:
        """The entry of the key: where it is, and what it is."""
        time = self._ordered.get(_TIMES + packed_key)
        if time is None:
            return None
        update_key = _UPDATES + time + packed_key
        packed = self._ordered.get(update_key)
        return None if packed is None else (update_key, unpack_buffer_value(packed)[0])

    def _first_time(self) -> int:
        entry = next(self._ordered.range(_UPDATES, _END), None)
        if entry is None:
            return MAX_MILLIS
        time: int = _TIME.unpack_from(entry[0], 1)[0]
        return time

    def _value_of(self, value: bytes | None) -> Any:
        return None if value is None else self._deserialize_value(value)
