from __future__ import annotations

import pytest

from headrace.serdes import Serdes
from headrace.state.environment import StoreEnvironment
from headrace.state.memory import MemoryStore
from headrace.state.open import open_store
from headrace.topology.stores import StoreKind, StoreSpec
from headrace.windowed import Window, Windowed
from tests.unit.state.support import at

MINUTE = 60_000


def spec(kind):
    return StoreSpec(
        "s",
        kind,
        Serdes.string(),
        Serdes.string(),
        retention_ms=2 * MINUTE,
        window_size_ms=10,
        logging=False,
        time_ordered=True,
    )


def starts(entries):
    return [(windowed.key, windowed.window.start) for windowed, _ in entries]


def test_windows_come_by_segment_start_and_key():
    ordered = MemoryStore()
    store = open_store(spec(StoreKind.WINDOW), ordered, StoreEnvironment())
    for key, start in (("b", 5), ("a", 7), ("a", 5), ("c", 3 * MINUTE // 2), ("a", 9)):
        store.put(key, "1", start, at(0))
    store.put("a", None, 9, at(0))
    late = ("c", 3 * MINUTE // 2)
    assert starts(store.all()) == [("a", 5), ("b", 5), ("a", 7), late]
    assert starts(store.all(reverse=True)) == [late, ("a", 7), ("b", 5), ("a", 5)]
    assert starts(store.fetch_all(6, MINUTE)) == starts(store.fetch_all_by_time(6, MINUTE)) == [("a", 7)]
    assert list(store.fetch("a", 0, 6)) == [(5, "1")]
    store.put("d", "1", 4 * MINUTE, at(0))
    assert starts(store.all()) == [("d", 4 * MINUTE)]
    store.flush()
    assert len(ordered) == 2


@pytest.mark.parametrize("reopened", [False, True])
def test_sessions_come_by_segment_end_start_and_key(reopened):
    ordered = MemoryStore()
    store = open_store(spec(StoreKind.SESSION), ordered, StoreEnvironment())
    for key, start, end in (("b", 5, 9), ("a", 7, 9), ("a", 5, 9), ("c", 0, 4), ("d", 0, 20)):
        store.put(Windowed(key, Window(start, end)), "1", at(0))
    store.remove(Windowed("d", Window(0, 20)), at(0))
    if reopened:
        store.flush()
        store = open_store(spec(StoreKind.SESSION), ordered, StoreEnvironment())
    assert starts(store.find_sessions_between(0, 9)) == [("c", 0), ("a", 5), ("b", 5), ("a", 7)]
    assert starts(store.find_sessions_between(5, 8)) == []
    assert starts(store.all(reverse=True)) == [("a", 7), ("b", 5), ("a", 5), ("c", 0)]
    assert starts(store.find_sessions("a", 0, 6)) == [("a", 5)]
