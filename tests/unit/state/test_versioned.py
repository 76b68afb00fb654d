from __future__ import annotations

import pytest

from headrace.errors import StoreError
from headrace.record import ValueAndTimestamp
from headrace.state.put_result import LATEST, NOT_PUT
from headrace.topology.stores import StoreKind
from tests.unit.state.support import Bench, at


def versions(retention_ms=10_000):
    return Bench(StoreKind.VERSIONED, retention_ms=retention_ms)


def test_each_version_is_valid_until_the_next():
    store = versions().store
    assert store.is_versioned
    assert store.put("a", "1", 10, at(0)) == LATEST
    assert store.put("a", "3", 30, at(0)) == LATEST
    assert store.put("a", "2", 20, at(0)) == 30
    assert store.put("a", "0", 5, at(0)) == 10
    assert store.get("a") == ValueAndTimestamp("3", 30)
    answers = [store.get_as_of("a", time) for time in (4, 5, 10, 19, 20, 29, 30, 99)]
    assert [answer and answer.value for answer in answers] == [None, "0", "1", "1", "2", "2", "3", "3"]
    assert [answer and answer.timestamp for answer in answers] == [None, 5, 10, 10, 20, 20, 30, 30]


def test_a_version_of_the_same_time_replaces_the_other():
    store = versions().store
    store.put("a", "1", 10, at(0))
    store.put("a", "2", 20, at(0))
    assert store.put("a", "1b", 10, at(0)) == 20
    assert store.put("a", "2b", 20, at(0)) == LATEST
    assert store.get_as_of("a", 15) == ValueAndTimestamp("1b", 10)
    assert store.get("a") == ValueAndTimestamp("2b", 20)


def test_deletions_are_versions_too():
    store = versions().store
    store.put("a", "1", 10, at(0))
    assert store.delete("a", 20, at(0)) == ValueAndTimestamp("1", 10)
    assert store.get("a") is None
    assert store.get_as_of("a", 19) == ValueAndTimestamp("1", 10)
    assert store.get_as_of("a", 20) is None
    assert store.put("a", "0", 15, at(0)) == 20
    assert store.put("b", None, 20, at(0)) == LATEST
    assert store.put("b", "1", 10, at(0)) == 20
    assert store.get("b") is None
    assert store.get_as_of("b", 10) == ValueAndTimestamp("1", 10)


def test_what_is_older_than_the_history_is_dropped_but_logged():
    bench = versions(1000)
    store = bench.store
    store.put("a", "1", 5000, at(0))
    assert store.put("a", "0", 4000, at(0)) == 5000
    assert store.put("a", "-1", 3999, at(0)) == NOT_PUT
    assert store.delete("a", 3999, at(0)) is None
    assert len(bench.dropped) == 2
    assert bench.log() == [(b"a", b"1", 5000), (b"a", b"0", 4000), (b"a", b"-1", 3999), (b"a", None, 3999)]
    store.put("b", "1", 5500, at(0))
    assert store.get_as_of("a", 4499) is None
    assert store.get_as_of("a", 4500) == ValueAndTimestamp("0", 4000)
    store.put("b", "1", 9000, at(0))
    assert store.get_as_of("a", 6000) == ValueAndTimestamp("1", 5000)


def test_old_versions_leave_the_store_with_their_segment():
    bench = versions(3000)
    for time in range(0, 100_000, 500):
        bench.store.put("a", str(time), time, at(0))
    assert len(bench.ordered) < 10


def test_history_is_found_again():
    bench = versions()
    bench.store.put("a", "1", 10, at(0))
    bench.store.put("a", "2", 20_000, at(0))
    bench.store.put("a", None, 21_000, at(0))
    store = bench.reopen()
    assert store.put("a", "0", 10_999, at(0)) == NOT_PUT
    assert store.get_as_of("a", 20_500) == ValueAndTimestamp("2", 20_000)
    assert store.get("a") is None


def test_a_null_key_is_an_error():
    with pytest.raises(StoreError, match="key cannot be null"):
        versions().store.get_as_of(None, 0)
