from __future__ import annotations

import pytest

from headrace.errors import StreamsError
from headrace.operators.table_aggregate import TableAggregateOperator, TableReduceOperator
from headrace.record import Change, ValueAndTimestamp
from headrace.topology.operations import TableAggregate, TableReduce
from tests.unit.operators.running import Running, key_values


def total(send_old=True):
    add, subtract = (lambda k, v, agg: agg + v), (lambda k, v, agg: agg - v)
    return TableAggregateOperator(TableAggregate("s", lambda: 100, add, subtract, send_old))


def reduction(send_old=True):
    return TableReduceOperator(TableReduce("s", lambda a, v: a + v, lambda a, v: None if a == v else a - v, send_old))


def test_an_update_takes_its_old_value_out_and_adds_its_new_one():
    running = Running(key_values("s")).start(total())
    assert running.update("g", 5, 10) == [("g", Change(105, None), 10)]
    assert running.update("g", 7, 8, old=5) == [("g", Change(107, 105), 10)]
    assert running.update("g", None, 9, old=7) == [("g", Change(100, 107), 10)]
    assert running.store("s").get("g") == ValueAndTimestamp(100, 10)


def test_without_an_aggregate_there_is_nothing_to_take_out():
    running = Running(key_values("s")).start(total())
    assert running.update("g", None, 3, old=5) == [("g", Change(None, None), 3)]
    assert running.update("g", 1, 4, old=5) == [("g", Change(101, None), 4)]


def test_a_reduction_begins_with_the_new_value():
    running = Running(key_values("s")).start(reduction())
    assert running.update("g", 5, 10) == [("g", Change(5, None), 10)]
    assert running.update("g", 7, 8) == [("g", Change(12, 5), 10)]
    assert running.update("g", None, 8, old=5) == [("g", Change(7, 12), 10)]


def test_a_reduction_that_was_emptied_keeps_its_time():
    running = Running(key_values("s")).start(reduction(send_old=False))
    running.update("g", 5, 10)
    assert running.update("g", 7, 8, old=5) == [("g", Change(7, None), 10)]
    assert running.update("g", None, 9, old=7) == [("g", Change(None, None), 10)]
    assert running.store("s").get("g") is None


@pytest.mark.parametrize("operator", [total, reduction])
def test_a_null_key_is_an_error(operator):
    with pytest.raises(StreamsError, match="NODE"):
        Running(key_values("s")).start(operator()).update(None, 1)


@pytest.mark.parametrize("operator", [total, reduction])
def test_a_cache_forwards_when_flushed(operator):
    running = Running(key_values("s"), cached=True).start(operator())
    assert running.update("g", 5, 10) == []
    assert len(running.flush()) == 1
