from __future__ import annotations

import pytest

from headrace.errors import StoreError
from headrace.record import ValueAndTimestamp
from headrace.topology.stores import StoreKind
from tests.unit.state.support import CACHE, Bench, at

TIMED = StoreKind.TIMESTAMPED_KEY_VALUE


@pytest.mark.parametrize("cache", [None, CACHE])
def test_what_is_older_than_the_time_to_live_is_gone(cache):
    bench = Bench(TIMED, cache=cache, ttl_ms=10)
    store = bench.store
    store.put("a", "1", 0, at(0))
    store.put("b", "1", 10, at(10))
    assert [key for key, _ in store.all()] == ["a", "b"]
    store.put("c", "1", 11, at(11))
    assert store.get("a") is None
    assert [key for key, _ in store.all()] == ["b", "c"]
    assert [key for key, _ in store.range("a", "b", reverse=True)] == ["b"]
    assert list(store.prefix("a")) == []
    store.flush()
    assert bench.log() == [(b"a", b"1", 0), (b"b", b"1", 10), (b"c", b"1", 11), (b"a", None, 11)]
    assert store.approximate_count() == 2
    assert store.expire() == 0


def test_an_update_prolongs_the_life_of_a_key_and_a_late_one_shortens_it():
    store = Bench(TIMED, ttl_ms=10).store
    store.put("a", "1", 0, at(0))
    store.put("b", "1", 9, at(9))
    store.put("a", "2", 9, at(9))
    store.put("b", "0", 1, at(9))
    store.put("c", "1", 12, at(12))
    store.flush()
    assert list(store.all()) == [("a", ValueAndTimestamp("2", 9)), ("c", ValueAndTimestamp("1", 12))]


def test_a_deleted_key_does_not_expire():
    bench = Bench(TIMED, ttl_ms=10)
    bench.store.put("a", "1", 0, at(0))
    bench.store.delete("a", at(1))
    bench.store.put("b", "1", 20, at(20))
    bench.log()
    bench.store.flush()
    assert bench.log() == []


def test_time_and_index_are_found_again():
    bench = Bench(TIMED, ttl_ms=10)
    bench.store.put("a", "1", 5, at(5))
    bench.store.put("b", "1", 15, at(15))
    bench.store.delete("b", at(15))
    store = bench.reopen()
    assert store.get("a") == ValueAndTimestamp("1", 5)
    store.put("c", "1", 16, at(16))
    assert store.get("a") is None
    assert store.expire() == 1


def test_a_plain_store_has_no_time_to_live():
    with pytest.raises(StoreError, match="Store s: a time to live needs values with timestamps"):
        Bench(StoreKind.KEY_VALUE, ttl_ms=10)
