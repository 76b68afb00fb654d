from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.operators.stream_stream_join import JoinWindowWriteOperator, StreamStreamJoinOperator
from headrace.serdes import Serdes
from headrace.topology.operations import JoinWindowWrite, Side, StreamStreamJoin
from headrace.topology.stores import StoreKind, StoreSpec
from headrace.windows import JoinWindows
from tests.unit.operators.join_wiring import Wiring, at

WINDOWS = JoinWindows.of(timedelta(milliseconds=10), grace=timedelta(milliseconds=5))


def join(key, left, right):
    return f"{left}+{right}"


def window_store(name):
    return StoreSpec(
        name,
        StoreKind.WINDOW,
        Serdes.string(),
        Serdes.string(),
        retention_ms=25,
        window_size_ms=20,
        retain_duplicates=True,
    )


class Join:
    """A join of two streams over windows of 10 ms to both sides and 5 ms of grace."""

    def __init__(self, *, left_outer=False, right_outer=False, joiner=join):
        self.outer = "waiting" if left_outer or right_outer else None
        specs = [window_store("lefts"), window_store("rights")]
        if self.outer:
            specs.append(StoreSpec("waiting", StoreKind.OUTER_JOIN, Serdes.string(), Serdes.string(), Serdes.string()))
        self.wiring = Wiring(*specs)
        self.outers = {Side.LEFT: left_outer, Side.RIGHT: right_outer}
        self.joiner = joiner
        self.start()

    def start(self):
        self.wiring.restart()
        self.operators = {
            side: StreamStreamJoinOperator(
                StreamStreamJoin(side, other, self.outer, WINDOWS, self.joiner, self.outers[side], "tracker")
            )
            for side, other in ((Side.LEFT, "rights"), (Side.RIGHT, "lefts"))
        }
        stores = {Side.LEFT: "lefts", Side.RIGHT: "rights"}
        self.entries = {
            side: self.wiring.wire(JoinWindowWriteOperator(JoinWindowWrite(stores[side])), operator)
            for side, operator in self.operators.items()
        }

    def left(self, key, value, timestamp):
        self.entries[Side.LEFT](key, value, at(timestamp))
        return self.wiring.taken()

    def right(self, key, value, timestamp):
        self.entries[Side.RIGHT](key, value, at(timestamp))
        return self.wiring.taken()


def test_records_within_the_window_join_at_the_later_time():
    """
    time   0    5    10   11
    left   a              b
    right       x    y        (y is 10 from a: still inside)
    """
    both = Join()
    assert both.left("k", "a", 0) == []
    assert both.right("k", "x", 5) == [("k", "a+x", 5)]
    assert both.right("k", "y", 10) == [("k", "a+y", 10)]
    assert both.left("k", "b", 11) == [("k", "b+x", 11), ("k", "b+y", 11)]
    assert both.right("other", "z", 11) == []


def test_a_late_record_takes_the_time_of_its_partner():
    both = Join()
    both.left("k", "a", 20)
    assert both.right("k", "x", 12) == [("k", "a+x", 20)]


def test_an_inner_join_drops_null_keys_and_values():
    both = Join()
    assert both.left(None, "a", 0) == both.left("k", None, 0) == both.right(None, "x", 0) == []
    assert both.wiring.dropped == ["null key or value"] * 3


def test_a_left_join_has_a_result_for_a_null_key_on_the_left_only():
    both = Join(left_outer=True)
    assert both.left(None, "a", 3) == [(None, "a+None", 3)]
    assert both.right(None, "x", 3) == both.left(None, None, 3) == both.left("k", None, 3) == []
    assert both.wiring.dropped == ["null key or value"] * 3


def test_an_unjoined_record_waits_for_its_window_and_the_grace_period():
    """
    time   0    2    15   16
    left   a
    right       y         z   (a waits until 10 + 5 have passed, y until 17)
    """
    both = Join(left_outer=True, right_outer=True)
    assert both.left("k", "a", 0) == []
    assert both.right("other", "y", 2) == []
    assert both.right("third", "z", 15) == []
    assert both.left("fourth", "b", 16) == [("k", "a+None", 0)]
    assert both.left("fourth", "c", 40) == [("other", "None+y", 2), ("third", "None+z", 15), ("fourth", "b+None", 16)]


def test_a_record_that_joined_does_not_come_alone_later():
    both = Join(left_outer=True)
    both.left("k", "a", 0)
    assert both.right("k", "x", 5) == [("k", "a+x", 5)]
    assert both.left("other", "b", 100) == []


def test_records_of_one_key_and_time_come_out_in_order():
    both = Join(left_outer=True)
    both.left("k", "a", 0)
    both.left("k", "b", 0)
    assert both.left("other", "c", 100) == [("k", "a+None", 0), ("k", "b+None", 0)]
    assert [(timestamp, value) for timestamp, _, _, value in both.wiring.store("waiting").all()] == [(100, "c")]


def test_a_record_whose_window_has_passed_need_not_wait():
    both = Join(left_outer=True)
    both.right("other", "x", 100)
    assert both.left("k", "a", 89) == [("k", "a+None", 89)]


def test_what_waits_survives_a_restart_through_the_left_sides_snapshot():
    both = Join(left_outer=True)
    both.left("k", "a", 0)
    snapshots = {side: operator.snapshot() for side, operator in both.operators.items()}
    assert snapshots == {Side.LEFT: {"stream_time": 0, "min_time": 0}, Side.RIGHT: {}}

    both.start()
    for side, operator in both.operators.items():
        operator.restore(snapshots[side])
    assert both.right("other", "x", 16) == [("k", "a+None", 0)]


def test_an_error_in_the_joiner_reaches_the_caller():
    def fails(key, left, right):
        raise ZeroDivisionError(key)

    both = Join(joiner=fails)
    both.left("k", "a", 0)
    with pytest.raises(ZeroDivisionError, match="k"):
        both.right("k", "x", 0)
