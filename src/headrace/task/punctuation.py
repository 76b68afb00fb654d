"""Schedules of punctuations, in the order in which they are due."""

from __future__ import annotations

from collections.abc import Callable

from headrace.task.priority_queue import PriorityQueue

Punctuate = Callable[[str, int, Callable[[int], None]], None]
"""Runs a punctuation: node, timestamp, the user's function."""


class Schedule:
    """A function of a node that is called each time its clock has moved by the interval."""

    __slots__ = ("callback", "interval", "is_cancelled", "node", "timestamp")

    def __init__(self, node: str, timestamp: int, interval: int, callback: Callable[[int], None]) -> None:
        self.node = node
        self.timestamp = timestamp
        """When it is due next."""
        self.interval = interval
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        """Ends the schedule."""
        self.is_cancelled = True

    def move_on(self, now: int) -> None:
        """Makes it due at the first whole interval after `now`; what was missed is not caught up on."""
        due = self.timestamp + self.interval
        if now >= due:
            missed = (now - self.timestamp) // self.interval
            due = self.timestamp + (missed + 1) * self.interval
        self.timestamp = due


class PunctuationQueue:
    """The schedules of a task that follow one clock."""

    __slots__ = ("_made", "_made_first", "_schedules", "waiting")

    def __init__(self) -> None:
        self._made: list[Schedule] = []
        self._made_first: list[Schedule] = []
        self._schedules: PriorityQueue[Schedule] = PriorityQueue(_due)
        self.waiting = self._schedules.heap
        """The schedules; where there are none, there is nothing to punctuate."""

    def add(self, schedule: Schedule) -> Schedule:
        """Adds a schedule."""
        self._made = [one for one in self._made if not one.is_cancelled]
        self._made.append(schedule)
        self._schedules.offer(schedule)
        return schedule

    def begin(self) -> None:
        """Says that all schedules so far were made by `init`, and so will be made again by the next one."""
        self._made_first = list(self._made)

    def punctuate(self, now: int, run: Punctuate) -> bool:
        """Runs what is due; answers whether anything was."""
        schedules = self._schedules
        punctuated = False
        schedule = schedules.peek()
        while schedule is not None and schedule.timestamp <= now:
            schedules.poll()
            if not schedule.is_cancelled:
                run(schedule.node, now, schedule.callback)
                if not schedule.is_cancelled:
                    schedule.move_on(now)
                    schedules.offer(schedule)
                punctuated = True
            schedule = schedules.peek()
        return punctuated

    def snapshot(self) -> list[tuple[str, int, int | None]]:
        """Node, interval and next time of the schedules that `init` made, in order; no time for cancelled ones."""
        return [(one.node, one.interval, None if one.is_cancelled else one.timestamp) for one in self._made_first]

    def restore(self, times: list[tuple[str, int, int | None]]) -> None:
        """Lets schedules that were made anew go on at the times of a snapshot, or be cancelled as they were."""
        waiting = [(node, interval, time) for node, interval, time in times]
        schedules = [one for one in self._made if not one.is_cancelled]
        self._schedules.clear()
        for schedule in schedules:
            known = next((e for e in waiting if e[:2] == (schedule.node, schedule.interval)), None)
            if known is not None:
                waiting.remove(known)
                if known[2] is None:
                    schedule.cancel()
                    continue
                schedule.timestamp = known[2]
            self._schedules.offer(schedule)

    @property
    def next_due(self) -> int | None:
        """When the first of the schedules that `init` made is due."""
        return min((one.timestamp for one in self._made_first if not one.is_cancelled), default=None)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is scheduled."""
        return not len(self._schedules)


def _due(schedule: Schedule) -> int:
    return schedule.timestamp
