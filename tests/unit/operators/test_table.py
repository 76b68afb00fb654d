from __future__ import annotations

import pytest

from headrace.errors import StreamsError
from headrace.operators.table import (
    TableFilterOperator,
    TableMapValuesOperator,
    TablePassThroughOperator,
    TableRepartitionMapOperator,
    TableSourceOperator,
)
from headrace.operators.table_transform import TableTransformValuesOperator
from headrace.record import Change, ValueAndTimestamp
from headrace.topology.operations import (
    TableFilter,
    TableMapValues,
    TablePassThrough,
    TableRepartitionMap,
    TableSource,
    TableTransformValues,
)
from tests.unit.operators.running import HOUR, Running, key_values, versions


def is_big(key, value):
    return value > 10


class TestSource:
    def test_without_a_store_old_values_are_not_known(self):
        running = Running().start(TableSourceOperator(TableSource(None)))
        assert running.process("k", 1, 5) == [("k", Change(1, None), 5)]
        assert running.process("k", 2, 6) == [("k", Change(2, None), 6)]

    def test_a_null_key_is_dropped(self):
        running = Running(key_values("t")).start(TableSourceOperator(TableSource("t")))
        assert running.process(None, 1) == []
        assert running.dropped == ["null key"]

    def test_old_values_are_sent_where_asked_for(self):
        running = Running(key_values("t")).start(TableSourceOperator(TableSource("t", send_old=True)))
        assert running.process("k", 1, 5) == [("k", Change(1, None), 5)]
        assert running.process("k", None, 6) == [("k", Change(None, 1), 6)]
        assert running.store("t").get("k") is None

        silent = Running(key_values("t")).start(TableSourceOperator(TableSource("t")))
        silent.process("k", 1, 5)
        assert silent.process("k", 2, 6) == [("k", Change(2, None), 6)]

    def test_out_of_order_updates_count(self, caplog):
        running = Running(key_values("t")).start(TableSourceOperator(TableSource("t")))
        running.process("k", 1, 5)
        assert running.process("k", 2, 3) == [("k", Change(2, None), 3)]
        assert running.store("t").get("k") == ValueAndTimestamp(2, 3)
        assert "Out-of-order update of table t" in caplog.text

    def test_a_cache_forwards_the_last_update_when_flushed(self):
        running = Running(key_values("t"), cached=True).start(TableSourceOperator(TableSource("t", send_old=True)))
        running.process("k", 1, 5)
        assert running.flush() == [("k", Change(1, None), 5)]
        assert running.process("k", 2, 6) == []
        assert running.process("k", 3, 4) == []
        assert running.flush() == [("k", Change(3, 1), 4)]
        assert running.process("k", None, 9) == []
        assert running.flush() == [("k", Change(None, 3), 9)]

    def test_a_versioned_table_tells_which_update_is_the_latest(self):
        running = Running(versions("t")).start(TableSourceOperator(TableSource("t", send_old=True)))
        assert running.process("k", 1, 2 * HOUR) == [("k", Change(1, None, True), 2 * HOUR)]
        assert running.process("k", 2, 2 * HOUR - 1) == [("k", Change(2, 1, False), 2 * HOUR - 1)]
        assert running.process("k", 3, 0) == []


class TestFilter:
    def test_what_does_not_fit_becomes_a_tombstone(self):
        running = Running().start(TableFilterOperator(TableFilter(is_big, False, None, send_old=False)))
        assert running.update("k", 11) == [("k", Change(11, None), 0)]
        assert running.update("k", 1, old=11) == [("k", Change(None, None), 0)]
        assert running.update("k", None, is_latest=False) == [("k", Change(None, None, False), 0)]

    def test_with_old_values_nothing_is_said_about_what_never_fitted(self):
        running = Running().start(TableFilterOperator(TableFilter(is_big, False, None, send_old=True)))
        assert running.update("k", 2, old=1) == []
        assert running.update("k", 12, old=2) == [("k", Change(12, None), 0)]
        assert running.update("k", 3, old=12) == [("k", Change(None, 12), 0)]

    def test_versioned_tables_have_all_tombstones_forwarded(self):
        operation = TableFilter(is_big, False, None, send_old=True, versioned=True)
        assert Running().start(TableFilterOperator(operation)).update("k", 2, old=1) == [("k", Change(None, None), 0)]

    def test_negated_with_a_store_the_old_value_is_the_stored_one(self):
        running = Running(key_values("f")).start(TableFilterOperator(TableFilter(is_big, True, "f", send_old=True)))
        assert running.update("k", 1, 5) == [("k", Change(1, None), 5)]
        assert running.update("k", 11, 6, old=1) == [("k", Change(None, 1), 6)]
        assert running.store("f").get("k") is None
        assert running.update("k", 12, 7, old=11) == []


class TestMapValues:
    def test_without_a_store_both_values_are_mapped(self):
        running = Running().start(TableMapValuesOperator(TableMapValues(lambda k, v: v * 2, None, send_old=True)))
        assert running.update("k", 2, old=1, is_latest=False) == [("k", Change(4, 2, False), 0)]
        assert running.update("k", None, old=2) == [("k", Change(None, 4), 0)]

    def test_with_a_store_the_old_value_is_the_stored_one(self):
        calls = []

        def mapper(key, value):
            calls.append(value)
            return value * 2

        running = Running(key_values("m")).start(TableMapValuesOperator(TableMapValues(mapper, "m", send_old=True)))
        assert running.update("k", 1, 5) == [("k", Change(2, None), 5)]
        assert running.update("k", 2, 6, old=1) == [("k", Change(4, 2), 6)]
        assert calls == [1, 2]

    def test_a_cache_forwards_when_flushed(self):
        operation = TableMapValues(lambda k, v: v * 2, "m", send_old=False)
        running = Running(key_values("m"), cached=True).start(TableMapValuesOperator(operation))
        assert running.update("k", 1, 5) == []
        assert running.flush() == [("k", Change(2, None), 5)]


class Counting:
    def init(self, ctx):
        self.current = ctx
        self.calls = 0

    def transform(self, key, value):
        self.calls += 1
        return f"{value}@{self.current().timestamp}#{self.calls}"

    def close(self):
        self.calls = -1


class TestTransformValues:
    def test_old_values_and_tombstones_are_transformed_too(self):
        operation = TableTransformValues(Counting, None, send_old=True, parent=None)
        running = Running().start(TableTransformValuesOperator(operation))
        assert running.update("k", None, 5, old=1) == [("k", Change("None@5#1", "1@5#2"), 5)]

    def test_with_a_store_the_old_value_is_the_stored_one(self):
        operation = TableTransformValues(Counting, "s", send_old=True, parent=None)
        running = Running(key_values("s")).start(TableTransformValuesOperator(operation))
        running.update("k", 1, 5)
        assert running.update("k", 2, 6, old=1) == [("k", Change("2@6#2", "1@5#1"), 6)]

    def test_close_reaches_the_transformer(self):
        made = Counting()
        operation = TableTransformValues(lambda: made, None, send_old=False, parent=None)
        Running().start(TableTransformValuesOperator(operation)).operator.close()
        assert made.calls == -1


class TestRepartitionMap:
    def regroup(self, versioned=False):
        operation = TableRepartitionMap(lambda k, v: None if v is False else v, versioned)
        return Running().start(TableRepartitionMapOperator(operation))

    def test_one_update_within_a_group_two_between_groups(self):
        running = self.regroup()
        assert running.update("k", ("g", 2), old=("g", 1)) == [("g", Change(2, 1), 0)]
        assert running.update("k", ("h", 3), old=("g", 2)) == [("g", Change(None, 2), 0), ("h", Change(3, None), 0)]
        assert running.update("k", None, old=("h", 3)) == [("h", Change(None, 3), 0)]

    @pytest.mark.parametrize("nowhere", [(None, 1), ("g", None), (None, None), False])
    def test_no_key_or_no_value_is_in_no_group(self, nowhere):
        running = self.regroup()
        assert running.update("k", nowhere, old=("g", 1)) == [("g", Change(None, 1), 0)]
        assert running.update("k", ("g", 1), old=nowhere) == [("g", Change(1, None), 0)]

    def test_out_of_order_updates_of_versioned_tables_are_left_out(self):
        assert self.regroup(versioned=True).update("k", ("g", 1), is_latest=False) == []
        assert self.regroup().update("k", ("g", 1), is_latest=False) == [("g", Change(1, None, False), 0)]

    def test_a_null_key_is_an_error(self):
        with pytest.raises(StreamsError, match="NODE"):
            self.regroup().update(None, ("g", 1))


def test_pass_through():
    running = Running().start(TablePassThroughOperator(TablePassThrough()))
    assert running.update("k", 2, old=1, is_latest=False) == [("k", Change(2, 1, False), 0)]
