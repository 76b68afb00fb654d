"""Several values under one key, as the store of a stream-stream outer join keeps them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from headrace.errors import SerializationError
from headrace.serdes.forms.sized import pack_sized, unpack_sized

# 1 says that each value carries its own length.
_HEAD = struct.Struct(">bi")
_VARIABLE_SIZE = 1


def pack_list(values: Sequence[bytes | None]) -> bytes:
    """A flag, the count in 4 bytes, then each value with its length."""
    return _HEAD.pack(_VARIABLE_SIZE, len(values)) + b"".join(map(pack_sized, values))


def unpack_list(data: bytes) -> list[bytes | None]:
    """The values in the order they were added."""
    count = _count(data)
    values: list[bytes | None] = []
    position = _HEAD.size
    for _ in range(count):
        value, position = unpack_sized(data, position)
        values.append(value)
    return values


def append_to_list(data: bytes | None, value: bytes) -> bytes:
    """The list with one value more, without reading the others; None is the empty list."""
    if data is None:
        return pack_list((value,))
    return b"".join((_HEAD.pack(_VARIABLE_SIZE, _count(data) + 1), data[_HEAD.size :], pack_sized(value)))


def _count(data: bytes) -> int:
    if len(data) < _HEAD.size:
        raise SerializationError(f"A list has at least {_HEAD.size} bytes, but the data has {len(data)}")
    flag: int
    count: int
    flag, count = _HEAD.unpack_from(data)
    if flag != _VARIABLE_SIZE:
        raise SerializationError(f"A list of byte strings begins with {_VARIABLE_SIZE}, but the data with {flag}")
    if not 0 <= count <= len(data):
        raise SerializationError(f"Corrupted list: it says that it has {count} values in {len(data)} bytes")
    return count
