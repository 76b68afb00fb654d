"""What key-value stores and window stores with timestamps have in common: the form of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from headrace.record import NO_HEADERS, RecordContext, ValueAndTimestamp, value_and_timestamp
from headrace.serdes.forms.timestamped import (
    TIMESTAMP_SIZE,
    pack_timestamp,
    pack_timestamped,
    timestamp_of,
    unpack_timestamp,
)
from headrace.serdes.plain import Rough, plain_form
from headrace.state.environment import StoreEnvironment
from headrace.state.live import LiveValues
from headrace.state.port import OrderedStore
from headrace.state.store import Store
from headrace.topology.stores import StoreSpec

Initial = Callable[[], Any]
"""Makes the value that the first one is made of."""
Add = Callable[[Any, Any, Any], Any]
"""Makes the next value of a key: of the key, a record's value and the value before."""


class TimestampedStore(Store):
    """A store whose values are kept behind their time; its changelog has the time on the record."""

    __slots__ = ()

    put_in: ClassVar[frozenset[str]] = frozenset({"revise", "_revise"})
    """Methods whose code compiled tasks put in, instead of calling them."""
    tries_direct = True

    def __init__(self, spec: StoreSpec, ordered: OrderedStore, environment: StoreEnvironment) -> None:
        super().__init__(spec, ordered, environment)
        form = plain_form(self._serialize_value)
        cache = environment.cache
        if self.cached and cache is not None and form is not None and spec.ttl_ms is None:
            self._live = LiveValues(form, cache)
            cache.on_settle(self._settle)

    def close(self) -> None:
        """Lets go of the cache's entries; what was held back stays unsaid."""
        if self._live is not None:
            self._live.take()
        super().close()

    def flush(self) -> None:
        """Lets through what the cache holds back."""
        if self._live is not None:
            self._settle()
            self._live.resume()
        super().flush()

    def _revise(
        self, place: bytes, start: int, key: Any, value: Any, context: RecordContext, initial: Initial | None, add: Add
    ) -> None:
        """Puts `add(key, value, old)` with the later of the two times, what reading and putting do in fewer steps.

        Where there is no old value it is that of `initial()`; without `initial`, the record's value is the first.
        """
        live = self._live
        if live is None or live.is_suspended:
            before = self._read_at(place, start)
            new = self._added(key, value, before, initial, add)
            self._write_at(place, start, self._packed(new, before, context), context)
            return
        held = live.held
        known = held.get(place)
        topic = context.topic
        if known is None or context.headers or (topic is not live.topic and topic != live.topic):
            self._revise_first(live, place, start, key, value, context, initial, add)
            return
        plain, timestamp, before, _ = known
        try:
            new = live.form.add(add, key, value, plain)
        except Exception:
            self._settle()
            self._read_at(place, start)
            raise
        if type(new) is Rough:
            self._put_settled(place, start, new.value, context)
            return
        if context.timestamp > timestamp:
            timestamp = context.timestamp
        del held[place]
        held[place] = (new, timestamp, before, context)

    def _revise_first(
        self,
        live: LiveValues,
        place: bytes,
        start: int,
        key: Any,
        value: Any,
        context: RecordContext,
        initial: Initial | None,
        add: Add,
    ) -> None:
        """The same for a value that is not held, or that cannot be any more."""
        if place in live.held or context.headers or (live.held and context.topic != live.topic):
            self._settle()
        before = self._read_at(place, start)
        try:
            new = self._added(key, value, before, initial, add)
        except Exception:
            if live.held:
                # What is held was used before this value was.
                self._settle()
                self._read_at(place, start)
            raise
        plain = None if live.is_suspended or context.headers else live.form.take(new)
        if plain is not None:
            timestamp = context.timestamp if before is None else max(context.timestamp, timestamp_of(before))
            if live.admit(place, (plain, timestamp, before, context)):
                return
        self._put_settled(place, start, new, context)

    def _put_settled(self, place: bytes, start: int, new: Any, context: RecordContext) -> None:
        self._settle()
        before = self._read_at(place, start)
        self._write_at(place, start, self._packed(new, before, context), context)

    def _settle(self) -> None:
        """Puts what is held as objects, and has values put as bytes until the next flush."""
        live = self._live
        if live is None or not live.held:
            return
        live.suspend()
        make, serialize = live.form.make, self._serialize_value
        for place, (plain, timestamp, before, context) in live.take().items():
            packed = serialize(make(plain))
            assert packed is not None
            self._write_settled(place, pack_timestamp(timestamp) + packed, before, context)

    def _read_at(self, place: bytes, start: int) -> bytes | None:
        """The value at a place of the ordered store; `start` is that of its window, if there are windows."""
        raise NotImplementedError

    def _write_at(self, place: bytes, start: int, value: bytes | None, context: RecordContext) -> None:
        """Puts a value at a place of the ordered store."""
        raise NotImplementedError

    def _write_settled(self, place: bytes, value: bytes, before: bytes | None, context: RecordContext) -> None:
        """Puts a value that was held; `before` is the one that it replaces."""
        raise NotImplementedError

    def _added(self, key: Any, value: Any, before: bytes | None, initial: Initial | None, add: Add) -> Any:
        if before is not None:
            return add(key, value, self._deserialize_value(before[TIMESTAMP_SIZE:]))
        return value if initial is None else add(key, value, initial())

    def _packed(self, value: Any, before: bytes | None, context: RecordContext) -> bytes | None:
        """A value as the store keeps it, with the later of the record's time and that of the value before."""
        packed = self._serialize_value(value)
        if packed is None:
            return None
        timestamp = context.timestamp
        return pack_timestamp(timestamp if before is None else max(timestamp, timestamp_of(before))) + packed

    def _value_of(self, value: bytes) -> ValueAndTimestamp:
        return value_and_timestamp((self._deserialize_value(value[TIMESTAMP_SIZE:]), unpack_timestamp(value)[0]))

    def _pass_on(self, key: bytes, new: bytes | None, old: bytes | None, context: RecordContext) -> None:
        if new is None:
            super()._pass_on(key, new, old, context)
            return
        # The same, with the time and the value read only once.
        timestamp, value = unpack_timestamp(new)[0], new[TIMESTAMP_SIZE:]
        if self._log is not None:
            self._log(key, value, timestamp, context.headers if self._logs_headers else NO_HEADERS)
        listener = self._listener
        if listener is not None:
            listener(
                self._listener_key(key),
                value_and_timestamp((self._deserialize_value(value), timestamp)),
                self._value_of(old) if self._send_old and old is not None else None,
                context,
            )

    def _listener_value(self, value: bytes) -> ValueAndTimestamp:
        return self._value_of(value)

    def _logged_form(self, value: bytes, timestamp: int) -> bytes:
        return pack_timestamped(value, timestamp)

    def _log_update(self, key: bytes, value: bytes | None, context: RecordContext) -> None:
        if self._log is None:
            return
        if value is None:
            self._log(key, None, context.timestamp, self._logged_headers(context))
        else:
            self._log(key, value[TIMESTAMP_SIZE:], timestamp_of(value), self._logged_headers(context))
