from __future__ import annotations

from collections.abc import Callable

from headrace.task.punctuation import PunctuationQueue, Schedule


class Calls:
    def __init__(self) -> None:
        self.made: list[tuple[str, int]] = []

    def run(self, node: str, timestamp: int, callback: Callable[[int], None]) -> None:
        self.made.append((node, timestamp))
        callback(timestamp)


def nothing(timestamp: int) -> None:
    pass


def test_missed_intervals_are_not_caught_up_on() -> None:
    queue, calls = PunctuationQueue(), Calls()
    schedule = queue.add(Schedule("n", 0, 10, nothing))
    assert queue.punctuate(35, calls.run)
    assert calls.made == [("n", 35)]
    assert schedule.timestamp == 40
    assert not queue.punctuate(39, calls.run)
    assert queue.punctuate(40, calls.run)
    assert schedule.timestamp == 50


def test_what_is_due_first_runs_first() -> None:
    queue, calls = PunctuationQueue(), Calls()
    queue.add(Schedule("late", 9, 100, nothing))
    queue.add(Schedule("early", 3, 100, nothing))
    queue.punctuate(10, calls.run)
    assert [node for node, _ in calls.made] == ["early", "late"]


def test_a_cancelled_schedule_does_not_run_again() -> None:
    queue, calls = PunctuationQueue(), Calls()
    schedule = Schedule("n", 0, 10, lambda timestamp: schedule.cancel())
    queue.add(schedule)
    assert queue.punctuate(0, calls.run)
    assert not queue.punctuate(100, calls.run)
    assert queue.is_empty
