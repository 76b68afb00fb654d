"""How far an application is, sampled from outside, and the rate that comes of it.

Kafka is asked for the offsets committed in the topics it reads, or in the last one on a record's way. What is not
committed is not done, whoever runs the application.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from benchmarks.contenders.application import Application

_FIRST_PART = 0.25
_SETTLED_SECONDS = 2.0
_SETTLED_LAG = 64
_STUCK_SECONDS = 600.0


class Positions(Protocol):
    """Where a group is in a topic and where the topic ends, by partition."""

    def committed(self, topic: str) -> list[int]: ...

    def ends(self, topic: str) -> list[int]: ...


class Course:
    """How far an application was at which time."""

    def __init__(
        self, records: int, application: Application, offsets: Positions, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._records = records
        self._sources = application.sources
        self._repartition = application.repartition
        self._offsets = offsets
        self._clock = clock
        self._changes: list[tuple[float, int]] = [(clock(), 0)]
        """Times at which the position in the last topic was seen to have moved, and the position."""
        self._source_done = 0
        self.is_over = False

    @property
    def done(self) -> int:
        """How many records of the sources are read."""
        return self._source_done

    @property
    def end(self) -> float:
        """When the last commit was seen."""
        return self._changes[-1][0]

    @property
    def through(self) -> int:
        """How many records it is through with, all the way; about so many, as long as it is not over."""
        return self._records if self.is_over else self._changes[-1][1]

    def sample(self) -> float:
        """Looks how far it is now; the time of it."""
        self._source_done = sum(sum(self._offsets.committed(source)) for source in self._sources)
        position = self._source_done
        if self._repartition is not None:
            position = sum(self._offsets.committed(self._repartition))
        now = self._clock()
        if position != self._changes[-1][1]:
            self._changes.append((now, position))
        elif now - self.end > _STUCK_SECONDS:
            where = self._repartition or ", ".join(self._sources)
            raise RuntimeError(f"Nothing was committed in {where} for {_STUCK_SECONDS:.0f} seconds.")
        self.is_over = self._source_done == self._records and self._is_settled(now)
        return now

    def rate(self) -> float | None:
        """Records a second from the first commit behind the first quarter to the last one.

        The position in a repartition topic counts the marks of transactions too. They are few and evenly spread, so
        its share of the final position is the share of the records.
        """
        final = self._changes[-1][1]
        for at, position in self._changes[:-1]:
            if position >= _FIRST_PART * final:
                return (1 - position / final) * self.through / (self.end - at)
        return None

    def micros_between(self, begin: float, end: float) -> float | None:
        """Microseconds a record between two shares of all records; None if one commit covers both.

        From the first commit that reaches the one share to the first that reaches the other.
        """
        final = self._changes[-1][1]
        first, last = (
            next((at, position) for at, position in self._changes if position >= share * final)
            for share in (begin, end)
        )
        if first == last:
            return None
        return (last[0] - first[0]) / (last[1] - first[1]) * 1e6

    def _is_settled(self, now: float) -> bool:
        """Whether a repartition topic is read too: what is left there are marks of transactions."""
        if self._repartition is None:
            return True
        if now - self.end < _SETTLED_SECONDS:
            return False
        ends, committed = (of(self._repartition) for of in (self._offsets.ends, self._offsets.committed))
        return all(end - through <= _SETTLED_LAG for end, through in zip(ends, committed, strict=True))
