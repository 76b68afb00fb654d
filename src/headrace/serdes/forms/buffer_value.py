"""A buffered change, as the changelogs of `suppress` and of a join's grace buffer carry it.

A changelog record of `suppress` has the serialized key, this value followed by the time the
row was buffered for, and the header `v` = 3; a tombstone has no header.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from headrace.errors import SerializationError
from headrace.record import Headers, RecordContext
from headrace.serdes.forms.record_context import pack_record_context, resident_size, unpack_record_context
from headrace.serdes.forms.sized import NONE, pack_size, pack_sized, take, unpack_size, unpack_sized

SUPPRESS_CHANGELOG_HEADERS: Headers = (("v", b"\x03"),)

_TIME = struct.Struct(">q")
_SAME_AS_PRIOR = -2
_SAME_AS_PRIOR_BYTES = pack_size(_SAME_AS_PRIOR)


class BufferValue(NamedTuple):
    """A change that waits in a buffer, and the value before everything that waits."""

    prior: bytes | None
    old: bytes | None
    new: bytes | None
    context: RecordContext


def pack_buffer_value(value: BufferValue) -> bytes:
    """Context, prior value, old value, new value; an old value equal to the prior one is not repeated."""
    prior, old, new, context = value
    if old is None:
        packed_old = NONE
    elif old == prior:
        packed_old = _SAME_AS_PRIOR_BYTES
    else:
        packed_old = pack_sized(old)
    return b"".join((pack_record_context(context), pack_sized(prior), packed_old, pack_sized(new)))


def unpack_buffer_value(data: bytes, position: int = 0) -> tuple[BufferValue, int]:
    """The value at the position, and the position after it."""
    context, position = unpack_record_context(data, position)
    prior, position = unpack_sized(data, position)
    size, position = unpack_size(data, position)
    old: bytes | None
    if size == _SAME_AS_PRIOR:
        old = prior
    else:
        old, position = take(data, position, size)
    new, position = unpack_sized(data, position)
    return BufferValue(prior, old, new, context), position


def pack_buffered(value: BufferValue, time: int) -> bytes:
    """A changelog record's value: the buffer value, then its time in 8 bytes.

    The grace buffer of a stream-table join has the time in its key and writes 0 here.
    """
    return pack_buffer_value(value) + _TIME.pack(time)


def unpack_buffered(data: bytes) -> tuple[BufferValue, int]:
    """The buffer value and its time."""
    value, position = unpack_buffer_value(data)
    if len(data) < position + 8:
        raise SerializationError(f"A buffered value ends with a time of 8 bytes, but {len(data) - position} are left")
    time: int = _TIME.unpack_from(data, position)[0]
    return value, time


def without_time(data: bytes) -> bytes:
    """The packed buffer value of a changelog record's value."""
    return data[: -_TIME.size]


def suppressed_size(key: bytes, value: BufferValue) -> int:
    """How many bytes Kafka Streams counts for the row in the limit of `suppress`."""
    prior, old, new, context = value
    size = 8 + len(key) + resident_size(context)
    if prior is not None:
        size += len(prior)
    if old is not None and old != prior:
        size += len(old)
    if new is not None:
        size += len(new)
    return size
