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


def test_schedules_go_on_from_a_snapshot_and_cancelled_ones_stay_so() -> None:
    def made() -> tuple[PunctuationQueue, list[Schedule]]:
        queue = PunctuationQueue()
        schedules = [queue.add(Schedule("n", time, interval, nothing)) for time, interval in ((5, 10), (7, 20))]
        queue.begin()
        return queue, schedules

    before, (kept, dropped) = made()
    before.punctuate(5, Calls().run)
    dropped.cancel()
    before.add(Schedule("n", 1, 30, nothing))
    assert kept.timestamp == before.next_due == 15
    after, (kept, dropped) = made()
    after.restore(before.snapshot())
    assert kept.timestamp == after.next_due == 15
    assert dropped.is_cancelled
    calls = Calls()
    after.punctuate(15, calls.run)
    assert calls.made == [("n", 15)]
    assert after.snapshot() == [("n", 10, 25), ("n", 20, None)]
