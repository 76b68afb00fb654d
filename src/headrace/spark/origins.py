"""Brings the rows that several tasks have sent to one into the order of their times."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain

from headrace.spark.ranges import Row

_BEFORE_ALL = -(1 << 63)


class Origin:
    """What one task has sent to another, read as far as it is needed."""

    def __init__(self, pieces: Iterator[list[Row]]) -> None:
        self._pieces = pieces
        self._rows: list[Row] = []
        self._times: list[int] = []
        """When each row's turn is: who comes late in its own origin does so right after the row that is ahead of it."""
        self._latest = _BEFORE_ALL
        self.has_more = True

    def last_time(self) -> int:
        """The turn of the last row that was read."""
        return self._latest

    def read_on(self) -> None:
        """Reads the next piece, if there is one."""
        rows = next(self._pieces, None)
        if not rows:
            self.has_more = rows is not None
            return
        times = list(accumulate((row[1] for row in rows), max, initial=self._latest))[1:]
        self._rows += rows
        self._times += times
        self._latest = times[-1]

    def take(self, until: int | None) -> tuple[list[int], list[Row]]:
        """The rows whose turn is before a time, with their turns; without one, all that were read."""
        end = len(self._rows) if until is None else bisect_left(self._times, until)
        taken = self._times[:end], self._rows[:end]
        del self._times[:end], self._rows[:end]
        return taken


def merge_origins(origins: Sequence[Iterator[list[Row]]]) -> Iterator[list[Row]]:
    """The rows of all origins, each in its own order: of those that are next, the one with the least timestamp first.

    A batch brings the rows of one origin after those of another. Read like that, the first would move the time on and
    make the others late.
    """
    if len(origins) == 1:
        yield from origins[0]
        return
    ahead = [Origin(pieces) for pieces in origins]
    while unread := [origin for origin in ahead if origin.has_more]:
        min(unread, key=Origin.last_time).read_on()
        # What comes before the least of the last times known cannot be preceded by anything that is still to come.
        until = min((origin.last_time() for origin in ahead if origin.has_more), default=None)
        taken = [origin.take(until) for origin in ahead]
        times = list(chain.from_iterable(times for times, _ in taken))
        rows = list(chain.from_iterable(rows for _, rows in taken))
        yield [rows[index] for index in sorted(range(len(rows)), key=times.__getitem__)]
