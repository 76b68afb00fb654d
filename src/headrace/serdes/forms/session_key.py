"""Keys with a session window: the same form in topics, session stores and their changelogs."""

from __future__ import annotations

import struct

_END_AND_START = struct.Struct(">qq")
_pack = _END_AND_START.pack
_unpack = _END_AND_START.unpack_from


def pack_session_key(key: bytes, start: int, end: int) -> bytes:
    """The key, the end in 8 bytes, the start in 8 bytes."""
    return key + _pack(end, start)


def unpack_session_key(data: bytes) -> tuple[bytes, int, int]:
    """The key, the start and the end of its session."""
    end, start = _unpack(data, len(data) - 16)
    return data[:-16], start, end
