from __future__ import annotations

import pytest

from headrace.errors import StoreError
from headrace.record import NO_HEADERS, ValueAndTimestamp
from headrace.state.put_result import LATEST
from headrace.topology.stores import StoreKind
from tests.unit.state.support import CACHE, Bench, at

PLAIN = StoreKind.KEY_VALUE
TIMED = StoreKind.TIMESTAMPED_KEY_VALUE


def test_a_plain_store_puts_gets_and_deletes_and_logs_each_change_with_the_time_of_the_record():
    bench = Bench(PLAIN)
    store = bench.store
    store.put("a", "1", at(5))
    assert store.get("a") == "1"
    assert store.put_if_absent("a", "2", at(6)) == "1"
    assert store.put_if_absent("b", "2", at(7)) is None
    assert store.delete("a", at(8)) == "1"
    assert store.delete("a", at(9)) is None
    store.put("b", None, at(10))
    assert list(store.all()) == []
    assert bench.logged == [
        (b"a", b"1", 5, NO_HEADERS),
        (b"b", b"2", 7, NO_HEADERS),
        (b"a", None, 8, NO_HEADERS),
        (b"a", None, 9, NO_HEADERS),
        (b"b", None, 10, NO_HEADERS),
    ]


@pytest.mark.parametrize("cache", [None, CACHE])
def test_ranges_include_both_ends_and_prefixes_are_of_the_serialized_key(cache):
    store = Bench(PLAIN, cache=cache).store
    for key in ("b", "a", "ab", "abc", "c"):
        store.put(key, key.upper(), at(0))
    assert [key for key, _ in store.all()] == ["a", "ab", "abc", "b", "c"]
    assert [key for key, _ in store.all(reverse=True)] == ["c", "b", "abc", "ab", "a"]
    assert list(store.range("ab", "b")) == [("ab", "AB"), ("abc", "ABC"), ("b", "B")]
    assert [key for key, _ in store.range(None, "ab")] == ["a", "ab"]
    assert [key for key, _ in store.range("b", None, reverse=True)] == ["c", "b"]
    assert [key for key, _ in store.prefix("ab")] == ["ab", "abc"]
    assert [key for key, _ in store.prefix(b"a")] == ["a", "ab", "abc"]
    assert list(store.range("b", "a")) == []
    assert store.approximate_count() == 5


@pytest.mark.parametrize("kind", [PLAIN, TIMED])
def test_a_null_key_is_an_error_that_names_the_store(kind):
    with pytest.raises(StoreError, match="Store s: key cannot be null"):
        Bench(kind).store.get(None)


def test_a_timestamped_store_logs_the_bare_value_with_its_own_time():
    bench = Bench(TIMED)
    assert bench.store.put("a", "1", 3, at(5)) == LATEST
    assert bench.store.get("a") == ValueAndTimestamp("1", 3)
    bench.store.put("a", None, 3, at(6))
    assert bench.store.get("a") is None
    assert bench.store.put_if_absent("a", "2", 4, at(7)) is None
    assert bench.store.delete("a", at(8)) == ValueAndTimestamp("2", 4)
    assert bench.log() == [(b"a", b"1", 3), (b"a", None, 6), (b"a", b"2", 4), (b"a", None, 8)]
    assert not bench.store.is_versioned
    with pytest.raises(StoreError, match="only versioned stores"):
        bench.store.get_as_of("a", 3)


def test_logging_can_be_off():
    bench = Bench(TIMED, logging=False)
    bench.store.put("a", "1", 3, at(5))
    assert bench.log() == []


def test_a_cache_makes_one_update_of_many_in_the_order_of_the_last_ones():
    bench = Bench(TIMED, cache=CACHE)
    bench.listen(send_old=True)
    store = bench.store
    assert store.cached
    store.put("a", "1", 1, at(1))
    store.put("b", "1", 2, at(2))
    store.put("a", "2", 3, at(3))
    assert store.get("a") == ValueAndTimestamp("2", 3)
    assert bench.log() == []
    store.flush()
    assert bench.log() == [(b"b", b"1", 2), (b"a", b"2", 3)]
    assert bench.flushed == [
        ("b", ValueAndTimestamp("1", 2), None, 2),
        ("a", ValueAndTimestamp("2", 3), None, 3),
    ]
    bench.flushed.clear()
    store.put("a", "3", 4, at(4))
    store.put("a", None, 0, at(5))
    store.flush()
    store.flush()
    assert bench.log() == [(b"a", None, 5)]
    assert bench.flushed == [("a", None, ValueAndTimestamp("2", 3), 5)]


def test_old_values_are_passed_on_only_when_asked_for():
    bench = Bench(TIMED, cache=CACHE)
    bench.listen(send_old=False)
    bench.store.put("a", "1", 1, at(1))
    bench.store.flush()
    bench.store.put("a", None, 0, at(2))
    bench.store.flush()
    assert bench.flushed[-1] == ("a", None, None, 2)


def test_what_came_and_went_between_two_flushes_is_said_only_without_a_listener():
    bench = Bench(TIMED, cache=CACHE)
    bench.store.put("a", "1", 1, at(1))
    bench.store.put("a", None, 0, at(2))
    bench.store.flush()
    assert bench.log() == [(b"a", None, 2)]
    bench.listen()
    bench.store.put("a", "1", 3, at(3))
    bench.store.put("a", None, 0, at(4))
    bench.store.flush()
    assert bench.log() == []
    assert bench.flushed == []


def test_a_store_can_be_opened_again():
    bench = Bench(TIMED, cache=CACHE)
    bench.store.put("a", "1", 1, at(1))
    assert bench.reopen().get("a") == ValueAndTimestamp("1", 1)
