"""The rows of a stream-stream left or outer join that still wait for a partner.

A key's value in the store and in its changelog is a list (`list_value`) of packed values.
"""

from __future__ import annotations

import struct

_TIMESTAMP_AND_SIDE = struct.Struct(">q?")
_pack = _TIMESTAMP_AND_SIDE.pack
_unpack = _TIMESTAMP_AND_SIDE.unpack_from


def pack_join_side_key(timestamp: int, is_left: bool, key: bytes) -> bytes:
    """The timestamp in 8 bytes, 1 for the left side or 0 for the right, the key."""
    return _pack(timestamp, is_left) + key


def unpack_join_side_key(data: bytes) -> tuple[int, bool, bytes]:
    """The timestamp, whether it is the left side, the key."""
    timestamp: int = _unpack(data)[0]
    return timestamp, data[8] == 1, data[9:]


def pack_join_side_value(is_left: bool, value: bytes) -> bytes:
    """1 for the left side or 0 for the right, then the value."""
    return (b"\x01" if is_left else b"\x00") + value


def unpack_join_side_value(data: bytes) -> tuple[bool, bytes]:
    """Whether it is the left side, and the value."""
    return data[0] == 1, data[1:]
