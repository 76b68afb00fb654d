"""Segments: the entries of a store by spans of time, so that what is too old goes a whole span at once."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable

from headrace.state.port import BackendStore

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
    An expired segment is deleted, except for the entries that `keep` speaks for; these are let go one by one. Where
    nobody looks at a segment that is not alive, `sweep` deletes those expired since it was last called, all at once.
    """

    __slots__ = (
        "_area",
        "_expired",
        "_held",
        "_ids",
        "_interval",
        "_keep",
        "_ordered",
        "_retention",
        "_sweeps",
        "begun_at",
        "expires_at",
        "recent_end",
        "recent_first",
        "recent_prefix",
        "spans",
    )

    def __init__(
        self,
        ordered: BackendStore,
        retention_ms: int,
        interval_ms: int,
        *,
        second_area: bool = False,
        keep: Callable[[bytes], bool] | None = None,
        sweeps: bool = False,
        begun_at: int = -1,
    ) -> None:
        self._ordered = ordered
        self._retention = retention_ms
        self._interval = interval_ms
        self._area = _SECOND_AREA if second_area else 0
        self._keep = keep
        self._sweeps = sweeps
        self._expired: tuple[int, int] | None = None
        """The first segment to be deleted, and the one behind the last."""
        self.begun_at = begun_at
        """The stream time of the store when it was opened: what is later was put since."""
        self._ids = self._existing()
        """The segments that are alive, in order."""
        self._held: list[int] = []
        """The expired segments of which something is kept, in order; all are before those alive."""
        self.spans: list[tuple[int, int, bytes]] = []
        """The first time of each segment, the first one behind it, and what its keys begin with, in order."""
        self.expires_at = 0
        """The stream time at which the first segment alive expires; 0 where there is none."""
        self.recent_first = self.recent_end = 0
        """From when to before when the segment is that was admitted last; none is until one was."""
        self.recent_prefix = b""
        """What its keys begin with."""
        self._changed()

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
        first = segment * self._interval
        if first == self.recent_first and self.recent_prefix and stream_time < self.expires_at:
            return True
        if segment < self.id_of(stream_time - self._retention):
            return False
        ids = self._ids
        at = bisect_left(ids, segment)
        if at == len(ids) or ids[at] != segment:
            ids.insert(at, segment)
            self._changed()
        self.expire(stream_time)
        self.recent_first, self.recent_end = first, first + self._interval
        self.recent_prefix = self.prefix(segment)
        return True

    def expire(self, stream_time: int) -> None:
        """Deletes the segments that are too old."""
        if stream_time < self.expires_at:
            return
        oldest = self.id_of(stream_time - self._retention)
        alive = bisect_left(self._ids, oldest)
        if alive == 0:
            return
        expired = self._ids[:alive]
        del self._ids[:alive]
        if self._sweeps:
            self._expired = (expired[0] if self._expired is None else self._expired[0], oldest)
        elif self._keep is None:
            self._clear(expired[0], oldest)
        else:
            for segment in expired:
                self._drop(segment, self._keep)
        self.recent_prefix = b""
        self.recent_end = self.recent_first
        self._changed()

    def sweep(self) -> None:
        """Deletes the segments that have expired meanwhile."""
        if self._expired is not None:
            self._clear(*self._expired)
            self._expired = None

    def hold(self, segment: int) -> None:
        """Has an expired segment exist for an entry that is kept."""
        at = bisect_left(self._held, segment)
        if at == len(self._held) or self._held[at] != segment:
            self._held.insert(at, segment)
            self._changed()

    def let_go(self, key: bytes) -> None:
        """Deletes an entry that was kept, if its segment is expired."""
        segment: int = _unpack(key)[0] & ~_SECOND_AREA
        at = bisect_left(self._held, segment)
        if at == len(self._held) or self._held[at] != segment:
            return
        self._ordered.delete(key)
        if next(self._ordered.range(self.prefix(segment), self.prefix(segment + 1)), None) is None:
            del self._held[at]
            self._clear(segment, segment + 1)
            self._changed()

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

    def _changed(self) -> None:
        """Works out again what follows from the segments there are."""
        interval = self._interval
        self.spans = [
            (segment * interval, (segment + 1) * interval, self.prefix(segment))
            for segment in (*self._held, *self._ids)
        ]
        self.expires_at = (self._ids[0] + 1) * interval + self._retention if self._ids else 0

    def _drop(self, segment: int, keep: Callable[[bytes], bool]) -> None:
        """Deletes what is not kept of an expired segment."""
        ordered = self._ordered
        kept = False
        for key, _ in ordered.range(self.prefix(segment), self.prefix(segment + 1)):
            if keep(key):
                kept = True
            else:
                ordered.delete(key)
        if kept:
            insort(self._held, segment)
        else:
            self._clear(segment, segment + 1)

    def _clear(self, first: int, end: int) -> None:
        """Deletes all that there is from one segment to before another."""
        self._ordered.clear(self.prefix(first), self.prefix(end))
        if self._area == 0:
            self._ordered.clear(self.index_prefix(first), self.index_prefix(end))

    def _existing(self) -> list[int]:
        ids: list[int] = []
        segment = 0
        end = None if self._area else _pack(_SECOND_AREA)
        while (entry := next(self._ordered.range(self.prefix(segment), end), None)) is not None:
            found: int = _unpack(entry[0])[0] & ~_SECOND_AREA
            ids.append(found)
            segment = found + 1
        return ids
