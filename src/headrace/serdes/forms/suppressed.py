"""A changelog record of `suppress` in any version that Kafka Streams 4 reads: the header `v` says which.

| `v` | written since | value |
| --- | --- | --- |
| none | 2.1 | time, old value, new value |
| 1 | 2.2 | time, context, length, old value, new value |
| 2 | 2.3 | context, length, old value, new value, prior value, time |
| 3 | 2.4.2, 2.5.1 | context, prior value, old value, new value, time; 2.4.0, 2.4.1 and 2.5.0 say 2 all the same |
"""

from __future__ import annotations

import struct

from headrace.errors import SerializationError
from headrace.record import Headers, RecordContext
from headrace.serdes.forms.buffer_value import BufferValue, unpack_buffered
from headrace.serdes.forms.record_context import unpack_record_context
from headrace.serdes.forms.sized import unpack_sized

_TIME = struct.Struct(">q")
_NO_VERSION = b""

Suppressed = tuple[BufferValue, int]
"""An update that waits, and the time it waits for."""


def unpack_suppressed(data: bytes, timestamp: int, headers: Headers, prior: bytes | None) -> Suppressed:
    """The update and its time.

    The first versions do not have everything. `prior` is the value before all that waits, as far as the records
    of the key before this one tell; the context is the time and the headers of the changelog record.
    """
    versions = [value for name, value in headers if name == "v"]
    version = versions[-1] if versions else _NO_VERSION
    if version == b"\x03":
        return unpack_buffered(data)
    if version == b"\x02":
        return _unpack_second(data)
    if version not in (_NO_VERSION, b"\x01"):
        raise SerializationError(f"A changelog record of suppress has the unknown version {version!r}")
    time, position = _unpack_time(data, 0)
    if version == _NO_VERSION:
        context = RecordContext(timestamp, headers)
        old, new = _unpack_values(data, position)
    else:
        context, position = unpack_record_context(data, position)
        old, new = _unpack_values(unpack_sized(data, position)[0], 0)
    return BufferValue(old if prior is None else prior, old, new, context), time


def _unpack_second(data: bytes) -> Suppressed:
    try:
        context, position = unpack_record_context(data)
        values, position = unpack_sized(data, position)
        old, new = _unpack_values(values, 0)
        prior, position = unpack_sized(data, position)
        time, _ = _unpack_time(data, position)
    except SerializationError:
        return unpack_buffered(data)
    return BufferValue(prior, old, new, context), time


def _unpack_values(data: bytes | None, position: int) -> tuple[bytes | None, bytes | None]:
    if data is None:
        raise SerializationError("A changelog record of suppress has no change")
    old, position = unpack_sized(data, position)
    new, _ = unpack_sized(data, position)
    return old, new


def _unpack_time(data: bytes, position: int) -> tuple[int, int]:
    if len(data) < position + 8:
        raise SerializationError(f"A time of 8 bytes expected at byte {position}, but the data has {len(data)}")
    time: int = _TIME.unpack_from(data, position)[0]
    return time, position + 8
