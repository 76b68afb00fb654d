from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.sliding_window_aggregate import SlidingWindowAggregateOperator
from headrace.record import Change
from headrace.topology.operations import SlidingWindowAggregate
from headrace.windowed import Window, Windowed
from headrace.windows import EmitStrategy, SlidingWindows
from tests.unit.operators.running import Running, windows

UPDATE, CLOSE = EmitStrategy.on_window_update(), EmitStrategy.on_window_close()


def collect(size, grace=1000, emit=UPDATE, send_old=False):
    kind = SlidingWindows(timedelta(milliseconds=size), timedelta(milliseconds=grace))
    operation = SlidingWindowAggregate("s", kind, list, lambda k, v, agg: [*agg, v], emit, send_old)
    return SlidingWindowAggregateOperator(operation)


def at(start, size=10, key="k"):
    return Windowed(key, Window(start, start + size))


def test_each_record_has_a_window_that_ends_with_it():
    running = Running(windows("s", 10)).start(collect(10))
    #            10        20        30
    # a (at 12)   |---------a
    # b (at 16)       |-----a---b       |a's right window: 13-23
    assert running.process("k", "a", 12) == [(at(2), Change(["a"], None), 12)]
    assert running.process("k", "b", 16) == [(at(13), Change(["b"], None), 16), (at(6), Change(["a", "b"], None), 16)]


def test_a_late_record_makes_its_own_right_window_of_what_came_after():
    running = Running(windows("s", 10)).start(collect(10))
    running.process("k", "b", 20)
    assert running.process("k", "a", 15) == [
        (at(10), Change(["b", "a"], None), 20),
        (at(5), Change(["a"], None), 15),
        (at(16), Change(["b"], None), 20),
    ]


def test_a_record_of_the_same_time_makes_no_new_window():
    running = Running(windows("s", 10)).start(collect(10))
    running.process("k", "a", 20)
    assert running.process("k", "b", 20) == [(at(10), Change(["a", "b"], None), 20)]


def test_records_before_the_first_full_window_share_the_one_from_zero():
    running = Running(windows("s", 10)).start(collect(10))
    assert running.process("k", "a", 3) == [(at(0), Change(["a"], None), 3)]
    assert running.process("k", "b", 5) == [(at(4), Change(["b"], None), 5), (at(0), Change(["a", "b"], None), 5)]


def test_old_aggregates_are_those_of_the_window():
    running = Running(windows("s", 10)).start(collect(10, send_old=True))
    running.process("k", "a", 12)
    assert running.process("k", "b", 16) == [(at(13), Change(["b"], []), 16), (at(6), Change(["a", "b"], ["a"]), 16)]


def test_too_late_for_all_windows_and_too_late_for_one():
    running = Running(windows("s", 10)).start(collect(10, grace=0))
    running.process("k", "a", 20)
    running.process("other", "x", 25)
    assert running.process("k", "b", 14) == []
    assert running.dropped == ["expired window"]
    running.dropped.clear()
    assert running.process("k", "c", 16) == [(at(17), Change(["a"], None), 20)]
    assert running.dropped == [
        "expired window",
        "expired window",
    ]


@pytest.mark.parametrize(("key", "value"), [(None, "v"), ("k", None)])
def test_null_keys_and_values_are_dropped(key, value):
    running = Running(windows("s", 10)).start(collect(10))
    assert running.process(key, value) == []
    assert running.dropped == ["null key or value"]


def test_on_window_close_final_results_come_by_time():
    running = Running(windows("s", 10)).start(collect(10, grace=5, emit=CLOSE))
    assert running.process("k", "a", 12) == []
    assert running.process("k", "b", 16) == []
    assert running.process("k", "c", 40) == [
        (at(2), Change(["a"], None), 12),
        (at(6), Change(["a", "b"], None), 16),
        (at(13), Change(["b"], None), 16),
    ]
    assert running.process("k", "d", 41) == []


@given(st.lists(st.integers(0, 60), max_size=20), st.integers(1, 25))
def test_the_windows_are_exactly_those_that_hold_different_records(times, size):
    running = Running(windows("s", size)).start(collect(size))
    for timestamp in times:
        running.process("k", timestamp, timestamp)

    expected = {}
    starts = {max(0, timestamp - size) for timestamp in times} | {timestamp + 1 for timestamp in times}
    for start in starts:
        if inside := sorted(timestamp for timestamp in times if start <= timestamp <= start + size):
            expected[start] = inside
    kept = {start: sorted(found.value) for start, found in running.store("s").fetch("k", 0, 1000)}
    assert kept == expected
