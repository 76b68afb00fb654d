"""Keys with the start of a time window: in topics, in window stores and in buffers ordered by time."""

from __future__ import annotations

import struct

from headrace.duration import MAX_MILLIS

_START = struct.Struct(">q")
_START_AND_SEQNUM = struct.Struct(">qi")
_PREFIX_AND_TIME = struct.Struct(">bq")
_SEQNUM = struct.Struct(">i")
_pack_start = _START.pack
_unpack_start = _START.unpack_from
_pack_start_and_seqnum = _START_AND_SEQNUM.pack
_unpack_start_and_seqnum = _START_AND_SEQNUM.unpack_from


def pack_windowed_key(key: bytes, start: int) -> bytes:
    """A windowed key in a topic: the key, the start in 8 bytes."""
    return key + _pack_start(start)


def unpack_windowed_key(data: bytes) -> tuple[bytes, int]:
    """The key and the start of its window."""
    start: int = _unpack_start(data, len(data) - 8)[0]
    return data[:-8], start


def pack_window_store_key(key: bytes, start: int, seqnum: int = 0) -> bytes:
    """A key of a window store and of its changelog: the key, the start, a number of 4 bytes.

    The number is 0 except in stores that keep duplicates, which count from 1.
    """
    return key + _pack_start_and_seqnum(start, seqnum)


def unpack_window_store_key(data: bytes) -> tuple[bytes, int, int]:
    """The key, the start of its window and the number."""
    start, seqnum = _unpack_start_and_seqnum(data, len(data) - 12)
    return data[:-12], start, seqnum


def pack_time_first_key(key: bytes, time: int, seqnum: int) -> bytes:
    """A key of the buffer of a stream-table join with grace: a zero byte, time, key, number."""
    return _PREFIX_AND_TIME.pack(0, time) + key + _SEQNUM.pack(seqnum)


def unpack_time_first_key(data: bytes) -> tuple[bytes, int, int]:
    """The key, the time and the number."""
    time: int = _PREFIX_AND_TIME.unpack_from(data)[1]
    seqnum: int = _SEQNUM.unpack_from(data, len(data) - 4)[0]
    return data[9:-4], time, seqnum


def window_end(start: int, size_ms: int) -> int:
    """The end of a window of this size, at most the largest timestamp there is."""
    return min(start + size_ms, MAX_MILLIS)
