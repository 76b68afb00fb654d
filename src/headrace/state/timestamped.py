"""What key-value stores and window stores with timestamps have in common: the form of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.record import RecordContext, ValueAndTimestamp, value_and_timestamp
from headrace.serdes.forms.timestamped import (
    TIMESTAMP_SIZE,
    pack_timestamp,
    pack_timestamped,
    timestamp_of,
    unpack_timestamp,
)
from headrace.state.store import Store

Initial = Callable[[], Any]
"""Makes the value that the first one is made of."""
Add = Callable[[Any, Any, Any], Any]
"""Makes the next value of a key: of the key, a record's value and the value before."""


class TimestampedStore(Store):
    """A store whose values are kept behind their time; its changelog has the time on the record."""

    __slots__ = ()

    def _revised(
        self, key: Any, value: Any, before: bytes | None, context: RecordContext, initial: Initial, add: Add
    ) -> bytes | None:
        """What `add` makes of the value before, as the store keeps it, with the later of the two times."""
        timestamp = context.timestamp
        if before is None:
            old = initial()
        else:
            old = self._deserialize_value(before[TIMESTAMP_SIZE:])
            timestamp = max(timestamp, timestamp_of(before))
        packed = self._serialize_value(add(key, value, old))
        return None if packed is None else pack_timestamp(timestamp) + packed

    def _value_of(self, value: bytes) -> ValueAndTimestamp:
        return value_and_timestamp((self._deserialize_value(value[TIMESTAMP_SIZE:]), unpack_timestamp(value)[0]))

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
