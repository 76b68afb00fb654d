from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.operators.session_window_aggregate import SessionWindowAggregateOperator
from headrace.record import Change
from headrace.topology.operations import SessionWindowAggregate
from headrace.windowed import Window, Windowed
from headrace.windows import EmitStrategy, SessionWindows
from tests.unit.operators.running import Running, sessions

UPDATE, CLOSE = EmitStrategy.on_window_update(), EmitStrategy.on_window_close()


def concat(gap=10, grace=1000, emit=UPDATE, send_old=False):
    kind = SessionWindows(timedelta(milliseconds=gap), timedelta(milliseconds=grace))
    aggregate, merge = (lambda k, v, agg: agg + v), (lambda k, a, b: a + b)
    return SessionWindowAggregateOperator(
        SessionWindowAggregate("s", kind, lambda: "", aggregate, merge, emit, send_old)
    )


def at(start, end, key="k"):
    return Windowed(key, Window(start, end))


def test_a_session_that_grows_is_replaced():
    running = Running(sessions("s")).start(concat(send_old=True))
    assert running.process("k", "a", 5) == [(at(5, 5), Change("a", None), 5)]
    assert running.process("k", "b", 5) == [(at(5, 5), Change("ab", None), 5)]
    assert running.process("k", "c", 15) == [(at(5, 5), Change(None, "ab"), 5), (at(5, 15), Change("abc", None), 15)]


def test_a_record_between_two_sessions_merges_them():
    running = Running(sessions("s")).start(concat())
    running.process("k", "a", 0)
    assert running.process("k", "b", 20) == [(at(20, 20), Change("b", None), 20)]
    assert running.process("k", "c", 10) == [
        (at(0, 0), Change(None, None), 0),
        (at(20, 20), Change(None, None), 20),
        (at(0, 20), Change("abc", None), 20),
    ]
    assert list(running.store("s").fetch("k")) == [(at(0, 20), "abc")]


def test_a_record_that_touches_only_closed_time_is_dropped():
    running = Running(sessions("s")).start(concat(gap=10, grace=5))
    running.process("other", "x", 100)
    assert running.process("k", "a", 84) == []
    assert running.dropped == ["expired window"]
    assert running.process("k", "b", 85) == [(at(85, 85), Change("b", None), 85)]


def test_a_late_record_still_joins_an_open_session():
    running = Running(sessions("s")).start(concat(gap=10, grace=0))
    running.process("k", "a", 90)
    running.process("other", "x", 100)
    assert running.process("k", "b", 81)[-1] == (at(81, 90), Change("ab", None), 90)
    assert running.dropped == []


def test_updates_carry_no_headers():
    running = Running(sessions("s")).start(concat())
    running.process("k", "a", 5, headers=(("h", b"1"),))
    assert running.headers == [()]


def test_null_keys_are_dropped():
    running = Running(sessions("s")).start(concat())
    assert running.process(None, "v") == []
    assert running.dropped == ["null key"]


def test_stream_time_outlives_the_operator():
    running = Running(sessions("s")).start(concat(gap=10, grace=0))
    running.process("other", "x", 100)
    successor = concat(gap=10, grace=0)
    successor.restore(running.operator.snapshot())
    assert running.start(successor).process("k", "a", 89) == []
    assert len(running.dropped) == 1


def test_a_cache_forwards_when_flushed():
    running = Running(sessions("s"), cached=True).start(concat(send_old=True))
    running.process("k", "a", 5)
    assert running.flush() == [(at(5, 5), Change("a", None), 5)]
    assert running.process("k", "b", 9) == []
    assert running.flush() == [(at(5, 5), Change(None, "a"), 5), (at(5, 9), Change("ab", None), 9)]


@pytest.mark.parametrize("cached", [False, True])
def test_on_window_close_only_final_results_come_by_end(cached):
    running = Running(sessions("s"), cached=cached).start(concat(gap=10, grace=0, emit=CLOSE))
    for key, timestamp in (("b", 5), ("a", 3), ("c", 5), ("b", 6)):
        assert running.process(key, "x", timestamp) == []
    assert running.process("d", "x", 16) == [
        (at(3, 3, "a"), Change("x", None), 3),
        (at(5, 5, "c"), Change("x", None), 5),
    ]
    assert running.process("d", "x", 17) == [(at(5, 6, "b"), Change("xx", None), 6)]
    assert running.metadata == {"s": 7}
