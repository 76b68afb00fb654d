"""Segments: the entries of a store by spans of time, so that what is too old goes a whole span at once."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable

from headrace.state.port import OrderedStore

_ID = struct.Struct(">Q")
_pack = _ID.pack
_unpack = _ID.unpack_from
_SECOND_AREA = 1 << 63


def default_interval(retention_ms: int) -> int:
    """How much time a segment of a window or session store spans."""
    return max(retention_ms // 2, 60_000)


class Segments:
    """Which segments a store has, and which of them are still alive.

    Keys begin with 8 bytes: the segment's id, and in its first bit one of two areas.
    An expired segment is deleted, except for the entries that `keep` speaks for; these are let go one by one.
    """

    __slots__ = ("_admitted", "_area", "_held", "_ids", "_interval", "_keep", "_ordered", "_retention")

    def __init__(
        self,
        ordered: OrderedStore,
        retention_ms: int,
        interval_ms: int,
        *,
        second_area: bool = False,
        keep: Callable[[bytes], bool] | None = None,
    ) -> None:
        self._ordered = ordered
        self._retention = retention_ms
        self._interval = interval_ms
        self._area = _SECOND_AREA if second_area else 0
        self._keep = keep
        self._ids = self._existing()
        """The segments that are alive, in order."""
        self._held: list[int] = []
        """The expired segments of which something is kept, in order; all are before those alive."""
        self._admitted: tuple[int, int] | None = None
        """The segment admitted last, and the stream time at which it was."""

    def id_of(self, time: int) -> int:
        """The segment that the time belongs to."""
        return time // self._interval if time >= 0 else -(-time // self._interval)

    def prefix(self, segment: int) -> bytes:
        """What the segment's keys begin with."""
        return _pack(segment | self._area)

    @staticmethod
    def index_prefix(segment: int) -> bytes:
        """What the segment's keys in the second area begin with."""
        return _pack(segment | _SECOND_AREA)

    def admit(self, segment: int, stream_time: int) -> bool:
        """Whether the segment is alive, in which case it exists from now on."""
        if self._admitted == (segment, stream_time):
            return True
        oldest = self.id_of(stream_time - self._retention)
        if segment < oldest:
            return False
        ids = self._ids
        if ids and ids[-1] == segment and ids[0] >= oldest:
            return True
        if not ids or ids[-1] != segment:
            at = bisect_left(ids, segment)
            if at == len(ids) or ids[at] != segment:
                ids.insert(at, segment)
        if ids[0] < oldest:
            self.expire(stream_time)
        self._admitted = (segment, stream_time)
        return True

    def expire(self, stream_time: int) -> None:
        """Deletes the segments that are too old."""
        oldest = self.id_of(stream_time - self._retention)
        ids = self._ids
        self._admitted = None
        while ids and ids[0] < oldest:
            self._drop(ids.pop(0))

    def hold(self, segment: int) -> None:
        """Has an expired segment exist for an entry that is kept."""
        at = bisect_left(self._held, segment)
        if at == len(self._held) or self._held[at] != segment:
            self._held.insert(at, segment)

    def let_go(self, key: bytes) -> None:
        """Deletes an entry that was kept, if its segment is expired."""
        segment: int = _unpack(key)[0] & ~_SECOND_AREA
        at = bisect_left(self._held, segment)
        if at == len(self._held) or self._held[at] != segment:
            return
        self._ordered.delete(key)
        if next(self._ordered.range(self.prefix(segment), self.prefix(segment + 1)), None) is None:
            del self._held[at]
            self._delete_index(segment)

    def between(self, first_time: int, last_time: int, *, reverse: bool = False) -> list[int]:
        """The segments that have entries of these times."""
        first, last = self.id_of(first_time), self.id_of(last_time)
        found = [
            *self._held[bisect_left(self._held, first) : bisect_right(self._held, last)],
            *self._ids[bisect_left(self._ids, first) : bisect_right(self._ids, last)],
        ]
        if reverse:
            found.reverse()
        return found

    def _drop(self, segment: int) -> None:
        ordered, keep = self._ordered, self._keep
        kept = False
        for key, _ in ordered.range(self.prefix(segment), self.prefix(segment + 1)):
            if keep is not None and keep(key):
                kept = True
            else:
                ordered.delete(key)
        if kept:
            insort(self._held, segment)
        else:
            self._delete_index(segment)

    def _delete_index(self, segment: int) -> None:
        if self._area == 0:
            for key, _ in self._ordered.range(self.index_prefix(segment), self.index_prefix(segment + 1)):
                self._ordered.delete(key)

    def _existing(self) -> list[int]:
        ids: list[int] = []
        segment = 0
        end = None if self._area else _pack(_SECOND_AREA)
        while (entry := next(self._ordered.range(self.prefix(segment), end), None)) is not None:
            found: int = _unpack(entry[0])[0] & ~_SECOND_AREA
            ids.append(found)
            segment = found + 1
        return ids
