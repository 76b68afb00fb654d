"""The buffer of a stream–table join with grace: records of the stream side until the grace period has passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.record import NO_HEADERS, Headers, RecordContext
from headrace.serdes.forms.buffer_value import (
    BufferValue,
    pack_buffer_value,
    pack_buffered,
    unpack_buffer_value,
    without_time,
)
from headrace.serdes.forms.window_key import pack_time_first_key, unpack_time_first_key
from headrace.state.environment import StoreEnvironment
from headrace.state.metadata import STREAM_TIME, load_number, save_number
from headrace.state.port import OrderedStore
from headrace.state.store import Store
from headrace.topology.stores import StoreSpec

Emit = Callable[[Any, Any, RecordContext], None]

_NUMBER = "number"
_LAST_NUMBER = 0x7FFFFFFF


class StreamBuffer(Store):
    """Records in the order of their time, key and arrival; the spec's retention is the grace period."""

    __slots__ = ("_grace", "_number", "_saved", "_stream_time")

    def __init__(self, spec: StoreSpec, ordered: OrderedStore, environment: StoreEnvironment) -> None:
        super().__init__(spec, ordered, StoreEnvironment(environment.log, None, environment.dropped))
        self._grace = spec.retention_ms
        self._stream_time = load_number(ordered, STREAM_TIME, -1)
        self._number = load_number(ordered, _NUMBER, 0)
        self._saved = (self._stream_time, self._number)

    @property
    def num_records(self) -> int:
        """How many records wait."""
        return len(self._ordered)

    def put(self, key: Any, value: Any, context: RecordContext) -> bool:
        """Holds the record back, unless its grace period has already passed, which answers False."""
        packed_key = self._key(key)
        if value is None:
            raise self.null("value")
        time = context.timestamp
        if self._stream_time - self._grace > time:
            return False
        self._number = (self._number + 1) & _LAST_NUMBER
        store_key = pack_time_first_key(packed_key, time, self._number)
        buffered = BufferValue(None, None, self._serialize_value(value), context)
        self._stream_time = max(self._stream_time, time)
        self._ordered.put(store_key, pack_buffer_value(buffered))
        if self._log is not None:
            self._log(store_key, pack_buffered(buffered, 0), None, NO_HEADERS)
        return True

    def evict(self, emit: Emit) -> None:
        """Emits and removes the records whose grace period has passed, the earliest first."""
        latest = self._stream_time - self._grace
        if latest < 0:
            return
        ordered = self._ordered
        while (entry := next(ordered.range(None, None), None)) is not None:
            store_key, packed = entry
            packed_key, time, _ = unpack_time_first_key(store_key)
            if time > latest:
                return
            value = unpack_buffer_value(packed)[0]
            emit(
                self._deserialize_key(packed_key),
                None if value.new is None else self._deserialize_value(value.new),
                value.context,
            )
            ordered.delete(store_key)
            if self._log is not None:
                self._log(store_key, None, None, NO_HEADERS)

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        """Takes over a record of the changelog; what has left tells how far the stream time was at least."""
        _, time, number = unpack_time_first_key(key)
        self._number = max(self._number, number)
        if value is None:
            self._stream_time = max(self._stream_time, time + self._grace)
            self._ordered.delete(key)
        else:
            self._stream_time = max(self._stream_time, time)
            self._ordered.put(key, without_time(value))

    def save_facts(self) -> None:
        """Keeps the stream time and the number of the last record."""
        state = (self._stream_time, self._number)
        if state != self._saved:
            save_number(self._ordered, STREAM_TIME, self._stream_time)
            save_number(self._ordered, _NUMBER, self._number)
            self._saved = state
