from __future__ import annotations

import pytest

from headrace.errors import StoreError
from headrace.record import ValueAndTimestamp
from headrace.state.facade import plain, read_only, read_write
from headrace.topology.stores import StoreKind
from headrace.windowed import Window, Windowed
from tests.unit.state.support import Bench, at


def facades(kind, **options):
    bench = Bench(kind, **options)
    return read_write(bench.store, bench.spec, lambda: at(7)), plain(bench.store, bench.spec), bench


def test_key_value():
    store, query, bench = facades(StoreKind.KEY_VALUE)
    assert store.name == "s"
    store.put("a", "1")
    assert store.put_if_absent("a", "2") == "1"
    assert store.put_if_absent("b", "2") is None
    assert query.get("a") == "1"
    assert list(store.range("a", "b")) == list(store.all()) == [("a", "1"), ("b", "2")]
    assert list(store.prefix("b")) == [("b", "2")]
    assert store.delete("a") == "1"
    assert store.approximate_count() == 1
    assert {timestamp for _, _, timestamp in bench.log()} == {7}


def test_a_table_has_timestamps_for_processors_and_none_for_queries():
    store, query, _ = facades(StoreKind.TIMESTAMPED_KEY_VALUE)
    store.put("a", ValueAndTimestamp("1", 3))
    store.put("b", "2")
    store.put("c", None)
    assert store.get("a") == ValueAndTimestamp("1", 3)
    assert store.get("b") == ValueAndTimestamp("2", 7)
    assert query.get("a") == "1"
    assert query.get("c") is None
    assert list(query.all(reverse=True)) == [("b", "2"), ("a", "1")]
    assert list(query.range("b", None)) == list(query.prefix("b")) == [("b", "2")]
    assert store.put_if_absent("a", "3") == ValueAndTimestamp("1", 3)
    assert store.delete("a") == ValueAndTimestamp("1", 3)


def test_window():
    store, query, _ = facades(StoreKind.WINDOW, retention_ms=1000, window_size_ms=10)
    store.put("a", "1", 5)
    assert store.fetch_one("a", 5) == "1"
    assert list(store.fetch("a", 0, 10)) == [(5, "1")]
    windowed = [(Windowed("a", Window(5, 15)), "1")]
    assert list(query.all()) == list(query.fetch_all(0, 10)) == list(query.fetch_range("a", "b", 0, 10)) == windowed


def test_timestamped_window():
    store, query, _ = facades(StoreKind.TIMESTAMPED_WINDOW, retention_ms=1000, window_size_ms=10)
    store.put("a", ValueAndTimestamp("1", 6), 5)
    assert store.fetch_one("a", 5) == ValueAndTimestamp("1", 6)
    assert query.fetch_one("a", 5) == "1"
    assert list(query.fetch("a", 0, 10)) == [(5, "1")]
    windowed = [(Windowed("a", Window(5, 15)), "1")]
    assert list(query.all()) == list(query.fetch_all(0, 10)) == list(query.fetch_range("a", "b", 0, 10)) == windowed


def test_session():
    store, query, _ = facades(StoreKind.SESSION, retention_ms=1000)
    windowed = Windowed("a", Window(1, 2))
    store.put(windowed, "1")
    assert query.fetch_one("a", 1, 2) == "1"
    assert list(query.fetch("a")) == list(query.all()) == list(query.find_sessions("a", 0, 9)) == [(windowed, "1")]
    store.remove(windowed)
    assert list(query.all()) == []


def test_versioned():
    store, query, _ = facades(StoreKind.VERSIONED, retention_ms=1000)
    assert store.put("a", "1", 10) == -1
    assert store.put("a", "2", 20) == -1
    assert query.get("a").value == "2"
    assert query.get("a", as_of=15).timestamp == 10
    assert store.delete("a", 30) == ValueAndTimestamp("2", 20)


def test_a_read_only_store_refuses_to_be_written_and_says_so():
    bench = Bench(StoreKind.TIMESTAMPED_KEY_VALUE)
    bench.store.put("a", "1", 3, at(3))
    store = read_only(bench.store, bench.spec)
    assert store.get("a") == ValueAndTimestamp("1", 3)
    for write in (lambda: store.put("a", "2"), lambda: store.delete("a"), lambda: store.put_if_absent("b", "2")):
        with pytest.raises(StoreError, match="Store s is read-only here"):
            write()
    assert store.get("a") == ValueAndTimestamp("1", 3)


def test_an_operators_own_store_has_no_facade():
    bench = Bench(StoreKind.SUPPRESS_BUFFER)
    with pytest.raises(StoreError, match="internal to an operator"):
        plain(bench.store, bench.spec)
