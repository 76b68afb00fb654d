"""Byte strings that carry their length in 4 bytes, -1 for None."""

from __future__ import annotations

import struct

from headrace.errors import SerializationError

_SIZE = struct.Struct(">i")
_pack_size = _SIZE.pack
_unpack_size = _SIZE.unpack_from

NONE = _pack_size(-1)


def pack_sized(value: bytes | None) -> bytes:
    """The length, then the bytes."""
    return NONE if value is None else _pack_size(len(value)) + value


def pack_size(size: int) -> bytes:
    """A length, or a number that stands for something else, in 4 bytes."""
    return _pack_size(size)


def unpack_size(data: bytes, position: int) -> tuple[int, int]:
    """The length at the position, and the position after it."""
    try:
        size: int = _unpack_size(data, position)[0]
    except struct.error as error:
        raise SerializationError(f"The data ends at byte {len(data)}, within a length: {error}") from None
    return size, position + 4


def unpack_sized(data: bytes, position: int) -> tuple[bytes | None, int]:
    """The byte string at the position, and the position after it."""
    size, position = unpack_size(data, position)
    return take(data, position, size)


def take(data: bytes, position: int, size: int) -> tuple[bytes | None, int]:
    """As many bytes, None for a size of -1, and the position after them."""
    if size == -1:
        return None, position
    end = position + size
    if size < 0 or end > len(data):
        raise SerializationError(f"{size} bytes expected at byte {position}, but the data has {len(data)} in all")
    return data[position:end], end
