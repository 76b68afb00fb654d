"""Stores in LMDB: every key, in order, whatever LMDB itself can hold."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.state.changes import StoreChanges
from headrace.state.lmdb_store import LmdbStores

LONG = b"k" * 600
keys = st.one_of(
    st.binary(max_size=3),
    st.binary(max_size=2).map(lambda end: LONG[:399] + end),
    st.binary(max_size=2).map(lambda end: LONG[:511] + end),
    st.binary(max_size=2).map(lambda end: LONG + end),
    st.binary(min_size=1, max_size=2).map(lambda start: start + LONG),
    st.tuples(st.binary(min_size=1, max_size=1), st.binary(max_size=1)).map(lambda ends: LONG.join(ends)),
)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LmdbStores]:
    stores = LmdbStores(str(tmp_path_factory.mktemp("lmdb")), 1 << 26)
    stores.database("one")
    stores.database("other")
    yield stores
    stores.close()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    entries=st.dictionaries(keys, st.binary(max_size=3), max_size=12),
    removed=st.sets(keys, max_size=4),
    cleared=st.tuples(keys, keys),
    low=st.none() | keys,
    high=st.none() | keys,
)
def test_keys_of_any_length_are_found_in_order(
    stores: LmdbStores,
    entries: dict[bytes, bytes],
    removed: set[bytes],
    cleared: tuple[bytes, bytes],
    low: bytes | None,
    high: bytes | None,
) -> None:
    with stores.environment.begin(write=True) as transaction:
        stores.clear(transaction)
        stores.apply(transaction, {"one": changes(entries), "other": changes({LONG: b"x", b"": b"y"})})
        stores.apply(transaction, {"one": StoreChanges(dict.fromkeys(removed), cleared=[cleared])})
    left = {key: value for key, value in entries.items() if key not in removed and not cleared[0] <= key < cleared[1]}
    inside = [(k, v) for k, v in sorted(left.items()) if (low is None or k >= low) and (high is None or k < high)]
    with stores.environment.begin() as transaction:
        reader = stores.reader(transaction, "one")
        assert list(reader.range(low, high)) == inside
        assert list(reader.range(low, high, reverse=True)) == inside[::-1]
        assert len(reader) == len(left)
        if low is not None and high is not None:
            assert reader.count(low, high) == len(inside)
        assert {key: reader.get(key) for key in (*entries, *removed)} == {
            key: left.get(key) for key in (*entries, *removed)
        }


@pytest.mark.parametrize("reverse", [False, True])
def test_a_range_of_long_keys_is_read_as_far_as_it_is_asked_for(stores: LmdbStores, reverse: bool) -> None:
    entries = {f"{number:03}".encode() + LONG: b"x" * 1000 for number in range(500)}
    with stores.environment.begin(write=True) as transaction:
        stores.clear(transaction)
        stores.apply(transaction, {"one": changes(entries)})
    with stores.environment.begin() as transaction:
        reader = stores.reader(transaction, "one")
        tracemalloc.start()
        try:
            first = next(iter(reader.range(None, None, reverse=reverse)))
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert first[0] == (b"499" if reverse else b"000") + LONG
    assert most < 50_000


def test_a_store_is_erased_with_all_its_keys_and_no_other(stores: LmdbStores) -> None:
    with stores.environment.begin(write=True) as transaction:
        stores.clear(transaction)
        stores.apply(transaction, {name: changes({LONG: b"x", b"": b"y", b"k": b"z"}) for name in ("one", "other")})
        stores.erase(transaction, "one")
        assert list(stores.reader(transaction, "one").range(None, None)) == []
        assert list(stores.reader(transaction, "other").range(None, None)) == [(b"", b"y"), (b"k", b"z"), (LONG, b"x")]


_OPEN_BESIDE_A_WRITER = """
import sys, threading
from headrace.state.lmdb_store import LmdbStores

stores = LmdbStores(sys.argv[1], 1 << 26)
opening = threading.Thread(target=stores.database, args=("new",), daemon=True)
with stores.environment.begin(write=True):
    opening.start()
    opening.join(1)
    assert opening.is_alive(), "it did not wait for the writer"
opening.join()
"""


def test_a_store_that_is_opened_waits_for_a_writer_of_another_thread(tmp_path: Path) -> None:
    """Where it keeps the GIL meanwhile, the writer can never end. In a process of its own, which can be ended."""
    subprocess.run([sys.executable, "-c", _OPEN_BESIDE_A_WRITER, str(tmp_path)], check=True, timeout=60)


def changes(entries: dict[bytes, bytes] | dict[bytes, None]) -> StoreChanges:
    return StoreChanges(dict(entries), {})
