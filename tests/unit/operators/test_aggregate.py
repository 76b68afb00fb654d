from __future__ import annotations

import pytest

from headrace.operators.aggregate import StreamAggregateOperator, StreamReduceOperator
from headrace.record import Change, ValueAndTimestamp
from headrace.topology.operations import StreamAggregate, StreamReduce
from tests.unit.operators.running import HOUR, Running, key_values, versions


def count(send_old=False):
    return StreamAggregateOperator(StreamAggregate("s", lambda: 0, lambda k, v, agg: agg + 1, send_old))


def concat(send_old=False):
    return StreamReduceOperator(StreamReduce("s", lambda agg, v: agg + v, send_old))


def test_an_aggregate_has_the_latest_time_of_its_records():
    running = Running(key_values("s")).start(count())
    assert running.process("k", "a", 5) == [("k", Change(1, None), 5)]
    assert running.process("k", "b", 3) == [("k", Change(2, None), 5)]
    assert running.process("k", "c", 9) == [("k", Change(3, None), 9)]
    assert running.store("s").get("k") == ValueAndTimestamp(3, 9)


def test_the_first_old_aggregate_is_the_initial_one():
    running = Running(key_values("s")).start(count(send_old=True))
    assert running.process("k", "a") == [("k", Change(1, 0), 0)]
    assert running.process("k", "b") == [("k", Change(2, 1), 0)]


def test_an_aggregate_of_none_is_deleted_and_starts_anew():
    operation = StreamAggregate("s", lambda: 0, lambda k, v, agg: None if v == "clear" else agg + 1, send_old=True)
    running = Running(key_values("s")).start(StreamAggregateOperator(operation))
    running.process("k", "a", 9)
    assert running.process("k", "clear", 1) == [("k", Change(None, 1), 9)]
    assert running.process("k", "b", 2) == [("k", Change(1, 0), 2)]


def test_a_reduction_begins_with_the_first_value():
    running = Running(key_values("s")).start(concat(send_old=True))
    assert running.process("k", "a", 5) == [("k", Change("a", None), 5)]
    assert running.process("k", "b", 3) == [("k", Change("ab", "a"), 5)]


@pytest.mark.parametrize("operator", [count, concat])
@pytest.mark.parametrize(("key", "value"), [(None, "v"), ("k", None)])
def test_null_keys_and_values_are_dropped(operator, key, value):
    running = Running(key_values("s")).start(operator())
    assert running.process(key, value) == []
    assert running.dropped == ["null key or value"]


def test_a_cache_forwards_one_update_a_key_when_flushed():
    running = Running(key_values("s"), cached=True).start(count(send_old=True))
    for key in "aab":
        assert running.process(key, "v", 5) == []
    assert running.flush() == [("a", Change(2, None), 5), ("b", Change(1, None), 5)]
    running.process("a", "v", 4, headers=(("h", b"1"),))
    assert running.flush() == [("a", Change(3, 2), 5)]
    assert running.headers[-1] == (("h", b"1"),)
    assert running.flush() == []


def test_a_versioned_store_refuses_what_is_too_old():
    running = Running(versions("s")).start(count())
    assert running.process("other", "v", 3 * HOUR) == [("other", Change(1, None, True), 3 * HOUR)]
    assert running.process("k", "v", HOUR) == []
