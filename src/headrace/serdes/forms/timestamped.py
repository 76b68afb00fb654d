"""A value with its timestamp, as timestamped stores keep it.

Only the store has this form. Its changelog has the bare value, and the timestamp on the record.
"""

from __future__ import annotations

import struct

_TIMESTAMP = struct.Struct(">q")
pack_timestamp = _TIMESTAMP.pack
unpack_timestamp = _TIMESTAMP.unpack_from
TIMESTAMP_SIZE = _TIMESTAMP.size


def pack_timestamped(value: bytes, timestamp: int) -> bytes:
    """The timestamp in 8 bytes, then the value."""
    return pack_timestamp(timestamp) + value


def unpack_timestamped(data: bytes) -> tuple[bytes, int]:
    """The value and its timestamp."""
    timestamp: int = unpack_timestamp(data)[0]
    return data[TIMESTAMP_SIZE:], timestamp


def timestamp_of(data: bytes) -> int:
    """The timestamp alone."""
    timestamp: int = unpack_timestamp(data)[0]
    return timestamp


def value_of(data: bytes) -> bytes:
    """The value alone."""
    return data[TIMESTAMP_SIZE:]
