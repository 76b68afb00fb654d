from __future__ import annotations

import pytest

from headrace.errors import StoreError
from headrace.serdes.forms.session_key import pack_session_key
from headrace.topology.stores import StoreKind
from headrace.windowed import Window, Windowed
from tests.unit.state.support import CACHE, Bench, at

MINUTE = 60_000


def session(key, start, end):
    return Windowed(key, Window(start, end))


def sessions(**options):
    return Bench(StoreKind.SESSION, **{"retention_ms": 2 * MINUTE, **options})


def found(entries):
    return [(windowed.key, windowed.window.start, windowed.window.end) for windowed, _ in entries]


@pytest.mark.parametrize("cache", [None, CACHE])
def test_sessions_are_found_by_key_and_time(cache):
    store = sessions(cache=cache).store
    for key, start, end in (("a", 0, 5), ("a", 10, 20), ("ab", 3, 4), ("b", 1, 9), ("a", 30, 30)):
        store.put(session(key, start, end), f"{key}{start}", at(0))
    assert store.fetch_one("a", 10, 20) == "a10"
    assert store.fetch_one("a", 10, 21) is None
    assert next(iter(store.fetch("a"))) == (session("a", 0, 5), "a0")
    assert found(store.fetch("a", reverse=True)) == [("a", 30, 30), ("a", 10, 20), ("a", 0, 5)]
    assert found(store.find_sessions("a", 5, 10)) == [("a", 0, 5), ("a", 10, 20)]
    assert found(store.find_sessions("a", 6, 9)) == []
    assert found(store.find_sessions("a", -7, 0)) == [("a", 0, 5)]
    assert found(store.all()) == [("a", 0, 5), ("a", 10, 20), ("a", 30, 30), ("ab", 3, 4), ("b", 1, 9)]
    assert found(store.find_sessions_between(4, 20)) == [("ab", 3, 4), ("a", 0, 5), ("b", 1, 9), ("a", 10, 20)]
    assert found(store.fetch_range("ab", "b")) == [("ab", 3, 4), ("b", 1, 9)]
    store.remove(session("a", 10, 20), at(0))
    store.put(session("a", 0, 5), None, at(0))
    assert found(store.fetch("a")) == [("a", 30, 30)]


def test_every_change_is_logged_under_key_end_and_start():
    bench = sessions()
    bench.store.put(session("a", 1, 2), "1", at(3))
    bench.store.remove(session("a", 1, 2), at(4))
    bench.store.remove(session("a", 1, 2), at(5))
    key = pack_session_key(b"a", 1, 2)
    assert bench.log() == [(key, b"1", 3), (key, None, 4), (key, None, 5)]


def test_a_cached_store_passes_plain_values_on():
    bench = sessions(cache=CACHE)
    bench.listen(send_old=True)
    bench.store.put(session("a", 1, 2), "1", at(3))
    bench.store.flush()
    bench.store.remove(session("a", 1, 2), at(4))
    bench.store.put(session("a", 1, 4), "2", at(4))
    bench.store.put(session("a", 4, 4), "0", at(4))
    bench.store.remove(session("a", 4, 4), at(4))
    bench.store.flush()
    assert bench.flushed == [
        (session("a", 1, 2), "1", None, 3),
        (session("a", 1, 2), None, "1", 4),
        (session("a", 1, 4), "2", None, 4),
    ]
    assert len(bench.log()) == 3


def test_a_session_is_retained_by_its_end():
    bench = sessions()
    store = bench.store
    store.put(session("a", 0, 1), "1", at(0))
    store.put(session("a", 0, 2 * MINUTE), "2", at(0))
    assert found(store.fetch("a")) == [("a", 0, 1), ("a", 0, 2 * MINUTE)]
    store.put(session("b", 5 * MINUTE, 5 * MINUTE), "3", at(0))
    assert found(store.all()) == [("b", 5 * MINUTE, 5 * MINUTE)]
    store.put(session("a", 0, 1), "4", at(0))
    assert bench.dropped == ["store s: expired segment"]
    assert found(bench.reopen().all()) == [("b", 5 * MINUTE, 5 * MINUTE)]


def test_a_null_key_is_an_error():
    with pytest.raises(StoreError, match="Store s: session key cannot be null"):
        sessions().store.put(None, "1", at(0))


def test_a_search_may_begin_before_zero():
    assert found(sessions(cache=CACHE).store.find_sessions("a", -10 * MINUTE, 0)) == []
