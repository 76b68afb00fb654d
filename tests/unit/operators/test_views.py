from __future__ import annotations

import pytest

from headrace.errors import StoreError
from headrace.record import Change, RecordContext, ValueAndTimestamp
from headrace.topology.stores import StoreKind
from headrace.topology.views import (
    FilteredView,
    JoinedView,
    MappedView,
    SessionStoreView,
    StoreView,
    SuppressedView,
    TransformedView,
    WindowStoreView,
)
from headrace.windowed import Window, Windowed
from tests.unit.operators.running import Running, key_values, sessions, spec, versions, windows

LEFT, RIGHT = StoreView("left"), StoreView("right")


@pytest.fixture
def running():
    running = Running(key_values("left"), key_values("right"))
    running.put("left", "both", 1, 5)
    running.put("right", "both", 2, 3)
    running.put("left", "left", 1, 5)
    running.put("right", "right", 2, 3)
    return running


def test_a_store_is_asked_as_it_is(running):
    getter = running.view(LEFT)
    assert getter.get("both") == ValueAndTimestamp(1, 5)
    assert getter.get("right") is None
    assert not getter.is_versioned


def test_windows_and_sessions_are_asked_by_windowed_keys():
    running = Running(windows("w", 10), sessions("s"))
    running.store("w").put("k", 1, 7, 0, RecordContext(7))
    running.store("s").put(Windowed("k", Window(3, 8)), 2, RecordContext(8))
    assert running.view(WindowStoreView("w")).get(Windowed("k", Window(0, 10))) == ValueAndTimestamp(1, 7)
    assert running.view(WindowStoreView("w")).get(Windowed("k", Window(10, 20))) is None
    assert running.view(SessionStoreView("s")).get(Windowed("k", Window(3, 8))) == ValueAndTimestamp(2, 8)
    assert running.view(SessionStoreView("s")).get(Windowed("k", Window(3, 9))) is None


def test_filters_and_mappers_keep_the_time(running):
    assert running.view(FilteredView(LEFT, lambda k, v: v == 1, False)).get("both") == ValueAndTimestamp(1, 5)
    assert running.view(FilteredView(LEFT, lambda k, v: v == 1, True)).get("both") is None
    assert running.view(FilteredView(LEFT, lambda k, v: v == 1, True)).get("right") is None
    assert running.view(MappedView(LEFT, lambda k, v: f"{k}{v}")).get("both") == ValueAndTimestamp("both1", 5)
    assert running.view(MappedView(LEFT, lambda k, v: None)).get("both") is None
    assert running.view(MappedView(LEFT, lambda k, v: v)).get("right") is None


class Describing:
    def init(self, ctx):
        self.current = ctx

    def transform(self, key, value):
        return None if key == "nothing" else f"{key}={value}@{self.current().timestamp}"

    def close(self):
        pass


def test_a_transformer_sees_the_time_of_the_value_and_missing_values_too(running):
    getter = running.view(TransformedView(LEFT, Describing))
    assert getter.get("both") == ValueAndTimestamp("both=1@5", 5)
    assert getter.get("right") == ValueAndTimestamp("right=None@-1", -1)
    assert getter.get("nothing") is None


@pytest.mark.parametrize(
    ("kind", "both", "left", "right"),
    [
        ("inner", ((1, 2), 5), None, None),
        ("left", ((1, 2), 5), ((1, None), 5), None),
        ("outer", ((1, 2), 5), ((1, None), 5), ((None, 2), 3)),
    ],
)
def test_a_join_has_the_later_time(running, kind, both, left, right):
    getter = running.view(JoinedView(kind, LEFT, RIGHT, lambda k, a, b: (a, b)))
    assert getter.get("both") == both
    assert getter.get("left") == left
    assert getter.get("right") == right
    assert getter.get("none") is None


def test_what_is_suppressed_has_not_happened_yet():
    running = Running(key_values("t"), spec("buffer", StoreKind.SUPPRESS_BUFFER))
    getter = running.view(SuppressedView(StoreView("t"), "buffer"))
    running.put("t", "k", 2, 20)
    assert getter.get("k") == ValueAndTimestamp(2, 20)
    running.store("buffer").put(20, "k", Change(2, 1), RecordContext(20, topic="in", partition=0, offset=0))
    running.store("buffer").put(20, "new", Change(2, None), RecordContext(20, topic="in", partition=0, offset=1))
    assert getter.get("k") == ValueAndTimestamp(1, -1)
    assert getter.get("new") is None


def test_only_versioned_tables_look_back(running):
    joined = running.view(JoinedView("outer", LEFT, RIGHT, lambda k, a, b: (a, b)))
    assert not joined.is_versioned
    for getter in (joined, running.view(LEFT), running.view(MappedView(LEFT, lambda k, v: v))):
        with pytest.raises(StoreError):
            getter.get_as_of("both", 0)


def test_a_versioned_table_looks_back_through_filters_and_mappers():
    running = Running(versions("t"))
    running.put("t", "k", 1, 10)
    running.put("t", "k", 2, 20)
    getter = running.view(MappedView(FilteredView(StoreView("t"), lambda k, v: v != 2, False), lambda k, v: v * 10))
    assert getter.is_versioned
    assert getter.get("k") is None
    assert getter.get_as_of("k", 15) == ValueAndTimestamp(10, 10)
    assert getter.get_as_of("k", 5) is None
