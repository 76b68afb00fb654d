from __future__ import annotations

import pytest

from headrace.errors import TopologyError
from headrace.operators.stream_table_join import StreamTableJoinOperator
from headrace.serdes import Serdes
from headrace.topology.operations import StreamTableJoin
from headrace.topology.stores import StoreKind, StoreSpec
from headrace.topology.views import StoreView
from tests.unit.operators.join_wiring import Wiring, at

PLAIN = StoreSpec("rows", StoreKind.TIMESTAMPED_KEY_VALUE, Serdes.string(), Serdes.string())
VERSIONED = StoreSpec("rows", StoreKind.VERSIONED, Serdes.string(), Serdes.string(), retention_ms=1000)


def join(key, value, row):
    return f"{value}+{row}"


class Join:
    def __init__(self, table=PLAIN, *, left=False, key=None, grace=None):
        buffer = StoreSpec("buffer", StoreKind.STREAM_BUFFER, Serdes.string(), Serdes.string(), retention_ms=grace or 0)
        self.wiring = Wiring(table, buffer)
        operation = StreamTableJoin(
            StoreView("rows"), join, left, key, grace, buffer_store=None if grace is None else "buffer"
        )
        self.entry = self.wiring.wire(StreamTableJoinOperator(operation))

    def row(self, key, value, timestamp):
        self.wiring.store("rows").put(key, value, timestamp, at(timestamp))

    def record(self, key, value, timestamp):
        self.entry(key, value, at(timestamp))
        return self.wiring.taken()


def test_a_record_joins_the_current_row_and_keeps_its_time():
    both = Join()
    assert both.record("k", "a", 5) == []
    both.row("k", "x", 9)
    assert both.record("k", "b", 6) == [("k", "b+x", 6)]
    assert both.wiring.dropped == []


def test_a_left_join_needs_no_row():
    assert Join(left=True).record("k", "a", 5) == [("k", "a+None", 5)]


@pytest.mark.parametrize(
    ("left", "key", "value", "results"),
    [(False, None, "a", []), (False, "k", None, []), (True, "k", None, []), (True, None, "a", [(None, "a+None", 1)])],
)
def test_null_keys_and_values(left, key, value, results):
    both = Join(left=left)
    assert both.record(key, value, 1) == results
    assert both.wiring.dropped == ([] if results else ["null join key or value"])


def test_a_mapped_key_finds_the_row_and_the_records_key_stays():
    both = Join(key=lambda key, value: None if value is None else value[0])
    both.row("a", "x", 0)
    assert both.record("k", "a1", 5) == [("k", "a1+x", 5)]
    assert both.record(None, "a2", 6) == [(None, "a2+x", 6)]


def test_a_versioned_table_is_asked_for_the_records_time():
    both = Join(VERSIONED)
    both.row("k", "old", 10)
    both.row("k", "new", 20)
    assert both.record("k", "a", 15) == [("k", "a+old", 15)]
    assert both.record("k", "b", 20) == [("k", "b+new", 20)]
    assert both.record("k", "c", 5) == []


def test_with_grace_a_record_waits_for_late_rows():
    """
    time    10   15        25    (grace 10: the record of 10 goes out when 20 has passed)
    table        (row of 8 arrives)
    stream  a    b         c
    """
    both = Join(VERSIONED, grace=10)
    assert both.record("k", "a", 10) == []
    assert both.record("k", "b", 15) == []
    both.row("k", "x", 8)
    assert both.record("k", "c", 25) == [("k", "a+x", 10), ("k", "b+x", 15)]


def test_with_grace_a_record_that_is_too_late_joins_at_once():
    both = Join(VERSIONED, grace=10)
    both.row("k", "x", 0)
    both.record("k", "a", 50)
    assert both.record("k", "b", 39) == [("k", "b+x", 39)]


def test_grace_needs_a_versioned_table():
    with pytest.raises(TopologyError, match=r"NODE.*versioned table"):
        Join(PLAIN, grace=10)
