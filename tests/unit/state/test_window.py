from __future__ import annotations

import pytest

from headrace.record import ValueAndTimestamp
from headrace.serdes.forms.window_key import pack_window_store_key
from headrace.state.environment import StoreEnvironment
from headrace.state.open import open_store
from headrace.state.overlay import OverlayStore
from headrace.topology.stores import StoreKind
from headrace.windowed import Window, Windowed
from tests.unit.state.support import CACHE, Bench, at

MINUTE = 60_000


def windows(**options):
    return Bench(StoreKind.WINDOW, **{"retention_ms": 2 * MINUTE, "window_size_ms": 10, **options})


def starts(entries):
    return [(windowed.key, windowed.window.start) for windowed, _ in entries]


@pytest.mark.parametrize("cache", [None, CACHE])
def test_windows_are_found_by_key_and_time(cache):
    store = windows(cache=cache).store
    for key, start in (("a", 0), ("a", 20), ("ab", 10), ("a", 10), ("b", 5)):
        store.put(key, f"{key}{start}", start, at(start))
    assert store.fetch_one("a", 10) == "a10"
    assert store.fetch_one("a", 11) is None
    assert list(store.fetch("a", 0, 10)) == [(0, "a0"), (10, "a10")]
    assert list(store.fetch("a", 1, 100, reverse=True)) == [(20, "a20"), (10, "a10")]
    assert list(store.fetch("a", 5, 4)) == []
    assert next(iter(store.all())) == (Windowed("a", Window(0, 10)), "a0")
    # Within a segment the order is that of the bytes: "a" with its start, before "ab" and "b".
    assert starts(store.all()) == [("a", 0), ("a", 10), ("a", 20), ("ab", 10), ("b", 5)]
    assert starts(store.all(reverse=True)) == [("b", 5), ("ab", 10), ("a", 20), ("a", 10), ("a", 0)]
    assert starts(store.fetch_all(5, 10)) == [("a", 10), ("ab", 10), ("b", 5)]
    assert starts(store.fetch_all_by_time(5, 20)) == [("b", 5), ("a", 10), ("ab", 10), ("a", 20)]
    assert starts(store.fetch_range("a", "ab", 0, 10)) == [("a", 0), ("a", 10), ("ab", 10)]
    assert starts(store.fetch_range(None, "a", 0, 100)) == [("a", 0), ("a", 10), ("a", 20)]
    assert list(store.fetch_range("b", "a", 0, 10)) == []


def test_segments_come_before_keys():
    store = windows().store
    store.put("a", "late", MINUTE, at(0))
    store.put("b", "early", 0, at(0))
    assert starts(store.all()) == [("b", 0), ("a", MINUTE)]


def test_windows_older_than_the_retention_are_hidden_then_gone_with_their_segment():
    bench = windows()
    store = bench.store
    store.put("a", "1", 0, at(0))
    store.put("a", "2", 1, at(1))
    store.put("b", "1", 2 * MINUTE, at(2))
    assert store.fetch_one("a", 0) is None
    assert list(store.fetch("a", 0, 10)) == [(1, "2")]
    assert starts(store.all()) == [("a", 1), ("b", 2 * MINUTE)]
    assert len(bench.ordered) == 3
    store.put("b", "1", 3 * MINUTE, at(3))
    store.flush()
    assert len(bench.ordered) == 2


def test_a_put_into_an_expired_segment_is_dropped_but_logged():
    bench = windows()
    bench.store.put("a", "1", 10 * MINUTE, at(1))
    bench.store.put("a", "2", 0, at(2))
    assert starts(bench.store.all()) == [("a", 10 * MINUTE)]
    assert bench.dropped == ["store s: expired segment"]
    assert bench.log() == [
        (pack_window_store_key(b"a", 10 * MINUTE), b"1", 1),
        (pack_window_store_key(b"a", 0), b"2", 2),
    ]


def test_what_the_cache_has_is_seen_beyond_the_retention_until_it_is_evicted():
    bench = windows(cache=1000)
    store = bench.store
    store.put("a", "1", 0, at(0))
    store.put("a", "2", 10 * MINUTE, at(0))
    store.flush()
    assert store.fetch_one("a", 0) == "1"
    assert [start for start, _ in store.fetch("a", 0, 10 * MINUTE)] == [0, 10 * MINUTE]
    store.put("b", "3", 1, at(0))
    assert bench.dropped == []
    assert starts(store.all()) == [("a", 0), ("b", 1), ("a", 10 * MINUTE)]
    store.flush()
    assert bench.dropped == ["store s: expired segment"]
    for number in range(30):
        store.put("c", "4", 10 * MINUTE + number, at(0))
    assert store.fetch_one("a", 0) is None
    assert {key for key, _ in starts(store.fetch_all(0, 1))} == set()
    assert bench.cache is not None
    bench.cache.size = 0
    assert starts(bench.reopen().all())[0] == ("a", 10 * MINUTE)


def test_a_cached_store_tells_key_and_window_when_it_is_flushed():
    bench = Bench(StoreKind.TIMESTAMPED_WINDOW, cache=CACHE, retention_ms=MINUTE, window_size_ms=10)
    bench.listen(send_old=True)
    store = bench.store
    store.put("a", "1", 7, 5, at(8))
    store.flush()
    store.put("a", "2", 9, 5, at(10))
    store.put("a", None, 9, 5, at(11))
    store.flush()
    window = Windowed("a", Window(5, 15))
    assert bench.flushed == [
        (window, ValueAndTimestamp("1", 7), None, 8),
        (window, None, ValueAndTimestamp("1", 7), 11),
    ]
    assert bench.log() == [(pack_window_store_key(b"a", 5), b"1", 7), (pack_window_store_key(b"a", 5), None, 11)]


def test_values_with_timestamps():
    store = Bench(StoreKind.TIMESTAMPED_WINDOW, retention_ms=MINUTE, window_size_ms=10).store
    store.put("a", "1", 7, 5, at(8))
    assert store.fetch_one("a", 5) == ValueAndTimestamp("1", 7)
    assert list(store.fetch("a", 0, 10)) == [(5, ValueAndTimestamp("1", 7))]
    assert list(store.all()) == [(Windowed("a", Window(5, 15)), ValueAndTimestamp("1", 7))]


def test_duplicates_are_retained_and_numbered_on_across_a_restart():
    bench = windows(retain_duplicates=True)
    bench.store.put("a", "1", 5, at(5))
    bench.store.put("a", None, 5, at(6))
    store = bench.reopen()
    store.put("a", "1", 5, at(7))
    assert list(store.fetch("a", 0, 10)) == [(5, "1"), (5, "1")]
    assert bench.log() == [
        (pack_window_store_key(b"a", 5, 1), b"1", 5),
        (pack_window_store_key(b"a", 5, 2), None, 6),
        (pack_window_store_key(b"a", 5, 3), b"1", 7),
    ]


def test_times_before_the_first_and_after_the_last_are_as_good_as_these():
    bench = windows(retention_ms=10 * MINUTE)
    bench.store.put("a", "1", 5, at(5))
    bench.store.flush()
    store = open_store(bench.spec, OverlayStore(bench.ordered), StoreEnvironment())
    assert list(store.fetch("a", -7, 2**64)) == [(5, "1")]
    assert list(store.fetch("a", -7, 2**64, reverse=True)) == [(5, "1")]
    assert list(store.fetch("a", 7, 5)) == []


def test_what_is_put_while_windows_are_read_is_not_among_them():
    store = windows(retain_duplicates=True).store
    store.put("a", "1", 5, at(5))
    seen = []
    for start, value in store.fetch("a", 0, 100):
        seen.append((start, value))
        store.put("a", "2", start + 1, at(6))
    assert seen == [(5, "1")]
    assert list(store.fetch("a", 0, 100)) == [(5, "1"), (6, "2")]


def test_stream_time_and_segments_are_found_again():
    bench = windows()
    bench.store.put("a", "1", 1, at(0))
    bench.store.put("a", "2", 2 * MINUTE, at(0))
    bench.store.put("a", None, 2 * MINUTE, at(0))
    store = bench.reopen()
    assert list(store.fetch("a", 0, 10)) == [(1, "1")]
    store.put("a", "3", 0, at(0))
    assert list(store.fetch("a", 0, 10)) == [(1, "1")]
    store.put("a", "4", 5 * MINUTE, at(0))
    assert starts(store.all()) == [("a", 5 * MINUTE)]
    store.flush()
    assert len(bench.ordered) == 1


def test_what_the_cache_holds_back_does_not_expire_what_is_below():
    bench = windows(cache=100)
    store = bench.store
    store.put("a", "1", 0, at(0))
    store.put("b", "2", 0, at(0))
    store.flush()
    store.put("c", "3", 10 * MINUTE, at(0))
    assert ("b", 0) in starts(store.all())
    store.flush()
    assert starts(store.all()) == [("c", 10 * MINUTE)]
