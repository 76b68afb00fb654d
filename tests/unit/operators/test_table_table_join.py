from __future__ import annotations

import pytest

from headrace.operators.table_table_join import TableJoinMergeOperator, TableTableJoinOperator
from headrace.record import Change
from headrace.serdes import Serdes
from headrace.state.cache import RecordCache
from headrace.topology.operations import TableJoinKind, TableJoinMerge, TableTableJoin
from headrace.topology.stores import StoreKind, StoreSpec
from headrace.topology.views import StoreView
from tests.unit.operators.join_wiring import Wiring, at

INNER, LEFT, RIGHT, OUTER = TableJoinKind.INNER, TableJoinKind.LEFT, TableJoinKind.RIGHT, TableJoinKind.OUTER


def join(key, own, other):
    return f"{own}+{other}"


def side(kind, other=None, *, send_old=True, versioned=False):
    """One side of a join; the other table's row is of time 20."""
    wiring = Wiring(StoreSpec("others", StoreKind.TIMESTAMPED_KEY_VALUE, Serdes.string(), Serdes.string()))
    if other is not None:
        wiring.store("others").put("k", other, 20, at(20))
    operation = TableTableJoin(kind, StoreView("others"), join, send_old, versioned)
    return wiring, wiring.wire(TableTableJoinOperator(operation))


@pytest.mark.parametrize(
    ("kind", "change", "result"),
    [
        (INNER, Change("b", "a"), Change("b+x", "a+x")),
        (INNER, Change(None, "a"), Change(None, "a+x")),
        (INNER, Change(None, None), Change(None, None)),
        (LEFT, Change("b", None), Change("b+x", None)),
        (LEFT, Change(None, None), Change(None, None)),
        (RIGHT, Change(None, "a"), Change("None+x", "a+x")),
        (RIGHT, Change(None, None), Change("None+x", "None+x")),
        (OUTER, Change(None, "a"), Change("None+x", "a+x")),
        (OUTER, Change("b", None), Change("b+x", "None+x")),
    ],
)
def test_with_a_row_on_the_other_side(kind, change, result):
    wiring, process = side(kind, "x")
    process("k", change, at(5))
    process("k", change, at(25))
    assert wiring.taken() == [("k", result, 20), ("k", result, 25)]


@pytest.mark.parametrize(
    ("kind", "change", "result"),
    [
        (INNER, Change("b", "a"), None),
        (RIGHT, Change("b", "a"), None),
        (LEFT, Change("b", "a"), Change("b+None", "a+None")),
        (LEFT, Change(None, "a"), Change(None, "a+None")),
        (LEFT, Change(None, None), None),
        (OUTER, Change("b", None), Change("b+None", None)),
        (OUTER, Change(None, "a"), Change(None, "a+None")),
        (OUTER, Change(None, None), None),
    ],
)
def test_without_a_row_on_the_other_side(kind, change, result):
    wiring, process = side(kind)
    process("k", change, at(5))
    assert wiring.taken() == ([] if result is None else [("k", result, 5)])
    assert wiring.dropped == []


def test_old_results_are_made_only_where_they_are_sent():
    wiring, process = side(OUTER, "x", send_old=False)
    process("k", Change("b", "a"), at(5))
    assert wiring.taken() == [("k", Change("b+x", None), 20)]


def test_null_keys_are_dropped():
    wiring, process = side(INNER)
    process(None, Change("a", None), at(0))
    assert wiring.dropped == ["null key"]


def test_out_of_order_updates_count_unless_the_tables_are_versioned():
    late = Change("b", "a", is_latest=False)
    wiring, process = side(INNER, "x")
    process("k", late, at(5))
    assert wiring.taken() == [("k", Change("b+x", "a+x", False), 20)]

    wiring, process = side(INNER, "x", versioned=True)
    process("k", late, at(5))
    assert wiring.taken() == []
    assert len(wiring.dropped) == 1


class TestMerge:
    def merge(self, kind=None, *, send_old=False, cache=None):
        specs = []
        if kind is not None:
            specs.append(StoreSpec("both", kind, Serdes.string(), Serdes.string(), retention_ms=100, caching=True))
        wiring = Wiring(*specs, cache=cache)
        operation = TableJoinMerge("both" if specs else None, send_old)
        return wiring, wiring.wire(TableJoinMergeOperator(operation))

    @pytest.mark.parametrize("send_old", [True, False])
    def test_without_a_store_results_pass(self, send_old):
        wiring, process = self.merge(send_old=send_old)
        process("k", Change("b", "a", False), at(5))
        assert wiring.taken() == [("k", Change("b", "a" if send_old else None, False), 5)]

    def test_a_store_keeps_the_result(self):
        wiring, process = self.merge(StoreKind.TIMESTAMPED_KEY_VALUE, send_old=True)
        process("k", Change("b", "a"), at(5))
        assert wiring.taken() == [("k", Change("b", "a"), 5)]
        assert wiring.store("both").get("k") == ("b", 5)

    def test_a_cache_holds_results_back(self):
        wiring, process = self.merge(StoreKind.TIMESTAMPED_KEY_VALUE, send_old=True, cache=RecordCache(1_000_000))
        process("k", Change("b", None), at(5))
        wiring.store("both").flush()
        process("k", Change("c", "b"), at(6))
        process("k", Change("d", "c"), at(7))
        assert wiring.taken() == [("k", Change("b", None), 5)]
        wiring.store("both").flush()
        assert wiring.taken() == [("k", Change("d", "b"), 7)]

    def test_a_versioned_store_knows_what_is_latest_and_what_is_too_old(self):
        wiring, process = self.merge(StoreKind.VERSIONED)
        process("k", Change("b", None), at(500))
        process("k", Change("c", None), at(450))
        process("k", Change("d", None), at(10))
        assert wiring.taken() == [("k", Change("b", None, True), 500), ("k", Change("c", None, False), 450)]
