from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.errors import BufferFullError
from headrace.operators.suppress import SuppressOperator
from headrace.record import Change, RecordContext
from headrace.serdes import Serdes
from headrace.topology.operations import Suppress
from headrace.topology.stores import StoreKind, StoreSpec
from headrace.windowed import Window, Windowed
from tests.unit.operators.join_wiring import Wiring, at

ENDLESS = 2**63 - 1
TEXT = StoreSpec("buffer", StoreKind.SUPPRESS_BUFFER, Serdes.string(), Serdes.string())
WINDOWS = StoreSpec(
    "buffer", StoreKind.SUPPRESS_BUFFER, Serdes.windowed(Serdes.string(), timedelta(milliseconds=10)), Serdes.string()
)


def limit(duration, *, records=ENDLESS, size=ENDLESS, emit_early=True):
    return Suppress("buffer", duration, False, records, size, emit_early, safe_to_drop_tombstones=False)


def until_window_closes(grace):
    return Suppress("buffer", grace, True, ENDLESS, ENDLESS, emit_early=False, safe_to_drop_tombstones=True)


class Suppressed:
    def __init__(self, operation, spec=TEXT):
        self.wiring = Wiring(spec)
        self.operation = operation
        self.start()

    def start(self):
        self.operator = SuppressOperator(self.operation)
        self.process = self.wiring.wire(self.operator)

    def update(self, key, new, timestamp, old=None):
        self.process(key, Change(new, old), at(timestamp))
        return self.wiring.taken()


def test_updates_of_a_key_are_one_until_the_limit_has_passed():
    table = Suppressed(limit(10))
    assert table.update("k", "a", 0) == []
    assert table.update("k", "b", 5, old="a") == []
    assert table.update("other", "x", 9) == []
    assert table.update("other", "y", 10, old="x") == [("k", Change("b", "a"), 5)]
    assert table.update("third", "z", 19) == [("other", Change("y", "x"), 10)]


def test_a_limit_of_zero_holds_nothing_back():
    table = Suppressed(limit(0))
    assert table.update("k", "a", 5) == [("k", Change("a", None), 5)]
    assert table.update("k", None, 3, old="a") == [("k", Change(None, "a"), 3)]


def test_what_is_emitted_has_the_context_it_came_with():
    table = Suppressed(limit(10))
    context = RecordContext(1, (("h", b"1"),), "topic", 2, 7)
    table.process("k", Change("a", None), context)
    table.update("other", "x", 50)
    emitted = table.wiring.contexts[0]
    assert (emitted.timestamp, emitted.headers, emitted.topic, emitted.partition, emitted.offset) == (
        *(1, (("h", b"1"),), "topic"),
        *(2, 7),
    )


def test_a_full_buffer_emits_its_oldest():
    table = Suppressed(limit(100, records=2))
    assert table.update("b", "1", 5) == table.update("a", "2", 5) == []
    assert table.update("c", "3", 6) == [("a", Change("2", None), 5)]
    assert table.update("d", "4", 6) == [("b", Change("1", None), 5)]


def test_a_full_buffer_that_must_not_emit_early_is_an_error():
    table = Suppressed(limit(100, records=1, emit_early=False))
    table.update("a", "1", 5)
    with pytest.raises(BufferFullError, match=r"NODE buffer exceeded its max capacity. Currently \[2/1\] records"):
        table.update("b", "2", 5)


def test_a_windows_final_result_comes_when_it_is_closed():
    first, second = (Windowed("k", Window(start, start + 10)) for start in (0, 10))
    table = Suppressed(until_window_closes(5), WINDOWS)
    assert table.update(first, "a", 3) == []
    assert table.update(second, "x", 14) == []
    assert table.update(first, "b", 4, old="a") == []
    assert table.update(second, "y", 15, old="x") == [(first, Change("b", "a"), 4)]


def test_a_window_that_ends_empty_has_no_final_result():
    window = Windowed("k", Window(0, 10))
    table = Suppressed(until_window_closes(0), WINDOWS)
    table.update(window, "a", 3)
    table.update(window, None, 4, old="a")
    assert table.update(Windowed("k", Window(20, 30)), "x", 20) == []


def test_the_stream_time_survives_a_restart():
    table = Suppressed(limit(10))
    table.update("k", "a", 20)
    snapshot = table.operator.snapshot()
    table.start()
    table.operator.restore(snapshot)
    assert table.update("late", "x", 10) == [("late", Change("x", None), 10)]
