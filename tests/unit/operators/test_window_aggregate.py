from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.duration import MAX_MILLIS
from headrace.operators.window_aggregate import WindowAggregateOperator
from headrace.record import Change
from headrace.topology.operations import WindowAggregate
from headrace.windowed import Window, Windowed
from headrace.windows import EmitStrategy, TimeWindows, UnlimitedWindows
from tests.unit.operators.running import Running, windows

UPDATE, CLOSE = EmitStrategy.on_window_update(), EmitStrategy.on_window_close()


def ms(millis):
    return timedelta(milliseconds=millis)


def concat(kind, emit=UPDATE, send_old=False):
    return WindowAggregateOperator(WindowAggregate("s", kind, lambda: "", lambda k, v, agg: agg + v, emit, send_old))


def at(start, end, key="k"):
    return Windowed(key, Window(start, end))


def test_hopping_windows_are_updated_earliest_first():
    running = Running(windows("s", 10)).start(concat(TimeWindows(ms(10), advance=ms(5))))
    assert running.process("k", "a", 7) == [(at(0, 10), Change("a", None), 7), (at(5, 15), Change("a", None), 7)]
    assert running.process("k", "b", 6) == [(at(0, 10), Change("ab", None), 7), (at(5, 15), Change("ab", None), 7)]
    assert running.process("k", "c", 12) == [(at(5, 15), Change("abc", None), 12), (at(10, 20), Change("c", None), 12)]


def test_a_record_is_dropped_from_each_window_it_is_too_late_for():
    running = Running(windows("s", 10)).start(concat(TimeWindows(ms(10), grace=ms(3), advance=ms(5))))
    running.process("other", "a", 12)
    assert [key for key, _, _ in running.process("k", "b", 7)] == [at(0, 10), at(5, 15)]
    running.process("other", "c", 17)
    assert running.process("k", "d", 7) == [(at(5, 15), Change("bd", None), 7)]
    assert running.dropped == ["expired window"]


def test_the_window_closes_for_all_keys_with_stream_time():
    running = Running(windows("s", 10)).start(concat(TimeWindows(ms(10))))
    running.process("k", "a", 9)
    assert running.process("k", "b", 0) == [(at(0, 10), Change("ab", None), 9)]
    running.process("other", "c", 10)
    assert running.process("k", "d", 9) == []
    assert len(running.dropped) == 1


def test_stream_time_outlives_the_operator():
    running = Running(windows("s", 10)).start(concat(TimeWindows(ms(10))))
    running.process("k", "a", 10)
    snapshot = running.operator.snapshot()
    successor = concat(TimeWindows(ms(10)))
    successor.restore(snapshot)
    assert running.start(successor).process("k", "b", 9) == []
    assert len(running.dropped) == 1


def test_null_keys_are_dropped_null_values_are_aggregated():
    operation = WindowAggregate("s", TimeWindows(ms(10)), lambda: 0, lambda k, v, agg: agg + 1, UPDATE)
    running = Running(windows("s", 10)).start(WindowAggregateOperator(operation))
    assert running.process(None, "v") == []
    assert running.dropped == ["null key"]
    assert running.process("k", None) == [(at(0, 10), Change(1, None), 0)]


def test_the_first_old_aggregate_is_the_initial_one():
    running = Running(windows("s", 10)).start(concat(TimeWindows(ms(10)), send_old=True))
    assert running.process("k", "a") == [(at(0, 10), Change("a", ""), 0)]
    assert running.process("k", "b") == [(at(0, 10), Change("ab", "a"), 0)]


def test_an_unlimited_window_never_ends():
    running = Running(windows("s", MAX_MILLIS)).start(concat(UnlimitedWindows(start_on=5)))
    assert running.process("k", "a", 4) == []
    assert running.process("k", "b", 10**12) == [(at(5, MAX_MILLIS), Change("b", None), 10**12)]
    assert running.process("k", "c", 5) == [(at(5, MAX_MILLIS), Change("bc", None), 10**12)]


def test_a_cache_forwards_when_flushed():
    running = Running(windows("s", 10), cached=True).start(concat(TimeWindows(ms(10)), send_old=True))
    assert running.process("k", "a", 5) == []
    assert running.process("k", "b", 3) == []
    assert running.flush() == [(at(0, 10), Change("ab", None), 5)]


@pytest.mark.parametrize("cached", [False, True])
def test_on_window_close_only_final_results_come_by_time_then_key(cached):
    running = Running(windows("s", 10), cached=cached).start(concat(TimeWindows(ms(10)), CLOSE))
    for key, timestamp in (("b", 1), ("a", 2), ("a", 9)):
        assert running.process(key, "x", timestamp) == []
    assert running.process("c", "x", 21) == [
        (at(0, 10, "a"), Change("xx", None), 9),
        (at(0, 10, "b"), Change("x", None), 1),
    ]
    assert running.process("c", "x", 29) == []
    assert running.process("c", "x", 35) == [(at(20, 30, "c"), Change("xx", None), 29)]
    assert running.flush() == []


def test_what_was_emitted_is_not_emitted_again_by_a_successor():
    running = Running(windows("s", 10)).start(concat(TimeWindows(ms(10)), CLOSE))
    running.process("k", "x", 1)
    assert len(running.process("k", "x", 10)) == 1
    assert running.metadata == {"s": 10}
    running.start(concat(TimeWindows(ms(10)), CLOSE))
    assert running.process("k", "x", 20) == [(at(10, 20), Change("x", None), 10)]


def test_final_results_carry_the_headers_of_the_record_that_closed_the_window():
    running = Running(windows("s", 10)).start(concat(TimeWindows(ms(10)), CLOSE))
    running.process("k", "x", 1, headers=(("h", b"1"),))
    running.process("k", "x", 10, headers=(("h", b"2"),))
    assert running.headers == [(("h", b"2"),)]
