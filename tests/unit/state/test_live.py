"""Values that wait for the commit as objects: nobody can tell them from values that were put as bytes each time."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.record import RecordContext
from headrace.serdes import Serde, Serdes
from headrace.topology.stores import StoreKind
from tests.unit.state.support import Bench


class Total(msgspec.Struct):
    count: int
    amount: float
    note: str | None = None


@dataclass
class Sum:
    count: int
    amount: float


kept: list[Any] = []
"""References that functions keep to aggregates they have returned."""


def grown(old: Any, by: float) -> Any:
    """The next aggregate, in a new object."""
    if isinstance(old, Total):
        return Total(old.count + 1, old.amount + by, old.note)
    if isinstance(old, Sum):
        return Sum(old.count + 1, old.amount + by)
    if isinstance(old, dict):
        return {**old, "count": old["count"] + 1, "pair": (1, 2)}
    return old + type(old)(by)


def changed_in_place(old: Any) -> None:
    if isinstance(old, Total | Sum):
        old.count += 100
    elif isinstance(old, dict):
        old["count"] += 100


def fails(key: str, value: float, old: Any) -> Any:
    changed_in_place(old)
    raise ValueError("no")


def in_place(key: str, value: float, old: Any) -> Any:
    changed_in_place(old)
    return old


def keeps(key: str, value: float, old: Any) -> Any:
    new = grown(old, value)
    kept.append(new)
    return new


def changes_what_it_kept(key: str, value: float, old: Any) -> Any:
    for each in kept:
        changed_in_place(each)
    return grown(old, value)


def with_an_int_for_a_float(key: str, value: float, old: Any) -> Any:
    if isinstance(old, Total | Sum):
        return type(old)(old.count, 7)
    return grown(old, value)


def not_a_number(key: str, value: float, old: Any) -> Any:
    return type(old)(old.count, math.nan) if isinstance(old, Total | Sum) else old


def out_of_range(key: str, value: float, old: Any) -> Any:
    return type(old)(2**70, 1.0) if isinstance(old, Total | Sum) else 2**70


def of_another_type(key: str, value: float, old: Any) -> Any:
    return "text" if not isinstance(old, str) else b"bytes"


def not_ascii(key: str, value: float, old: Any) -> Any:
    return Total(1, 1.0, "é\ud800" if value == 1 else "é") if isinstance(old, Total) else "é"


def nothing(key: str, value: float, old: Any) -> Any:
    return None


FUNCTIONS: tuple[Callable[[str, float, Any], Any], ...] = (
    lambda key, value, old: grown(old, value),
    in_place,
    keeps,
    changes_what_it_kept,
    with_an_int_for_a_float,
    fails,
    nothing,
    not_a_number,
    out_of_range,
    of_another_type,
    not_ascii,
)

VALUES: dict[str, tuple[Serde[Any], Callable[[], Any]]] = {
    "struct": (Serdes.json(Total), lambda: Total(0, 0.0)),
    "dataclass": (Serdes.json(Sum), lambda: Sum(0, 0.0)),
    "long": (Serdes.long(), lambda: 0),
    "double": (Serdes.double(), lambda: 0.1),
    "float32": (Serdes.float(), lambda: 0.1),
    "untyped": (Serdes.json(), lambda: {"count": 0}),
    "text": (Serdes.string(), lambda: ""),
}

steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("revise"),
            st.sampled_from("abcd"),
            st.one_of(st.just(0), st.just(0), st.integers(0, len(FUNCTIONS) - 1)),
            st.integers(0, 3),
            st.sampled_from([(), (), (("h", b"1"),)]),
            st.sampled_from(["t", "t", "longer"]),
        ),
        st.tuples(st.sampled_from(["get", "delete", "all", "flush", "flush", "count"]), st.sampled_from("abcd")),
    ),
    max_size=14,
)


@pytest.mark.parametrize("kind", [StoreKind.TIMESTAMPED_KEY_VALUE, StoreKind.TIMESTAMPED_WINDOW])
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("cache", [150, 320, 700, 1_800, 100_000])
@settings(max_examples=60, deadline=None)
@given(taken=steps)
def test_objects_are_as_bytes_would_be(kind: StoreKind, values: str, cache: int, taken: list[Any]) -> None:
    serde, initial = VALUES[values]
    runs = [_run(kind, serde, initial, cache, taken, with_objects=each) for each in (True, False)]
    assert runs[0] == runs[1]


def _run(
    kind: StoreKind, serde: Serde[Any], initial: Callable[[], Any], cache: int, taken: list[Any], *, with_objects: bool
) -> list[Any]:
    """Everything that can be seen of a store while these steps are taken, and how its cache is left."""
    kept.clear()
    windows = {"retention_ms": 100_000, "window_size_ms": 10} if kind is StoreKind.TIMESTAMPED_WINDOW else {}
    bench = Bench(kind, cache=cache, value=serde, **windows)
    bench.listen(send_old=True)
    if not with_objects:
        bench.store._live = None
    seen: list[Any] = []
    for number, step in enumerate(taken):
        try:
            seen.append(repr(_taken(bench, bool(windows), step, initial, number)))
        except Exception as error:
            seen.append((type(error), str(error)))
        seen.append((repr(bench.flushed), bench.log(), list(bench.logged)))
        bench.flushed.clear()
    if with_objects:
        bench.store._settle()
    assert bench.cache is not None
    held = bench.store._cache
    seen += [list(held.entries.items()), [(key, each[:2]) for key, each in held.dirty.items()], bench.cache.size]
    try:
        bench.store.flush()
    except Exception as error:
        seen.append((type(error), str(error)))
    return [*seen, repr(bench.flushed), bench.log(), sorted(bench.ordered.entries()), bench.cache.estimate]


@pytest.mark.parametrize("kind", [StoreKind.TIMESTAMPED_KEY_VALUE, StoreKind.TIMESTAMPED_WINDOW])
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("send_old", [True, False])
@settings(max_examples=30, deadline=None)
@given(taken=steps)
def test_a_store_that_is_closed_next_lets_the_same_through(
    kind: StoreKind, values: str, send_old: bool, taken: list[Any]
) -> None:
    serde, initial = VALUES[values]
    windows = {"retention_ms": 100_000, "window_size_ms": 10} if kind is StoreKind.TIMESTAMPED_WINDOW else {}
    seen = []
    for flush in ("flush", "flush_and_forget"):
        kept.clear()
        bench = Bench(kind, cache=100_000, value=serde, **windows)
        bench.listen(send_old=send_old)
        for number, step in enumerate(taken):
            with contextlib.suppress(Exception):
                _taken(bench, bool(windows), step, initial, number)
        failed = None
        try:
            getattr(bench.store, flush)()
        except Exception as error:
            failed = (type(error), str(error))
        bench.store.close()
        assert bench.cache is not None
        cached = (bench.cache.size, bench.cache.estimate)
        seen.append((repr(bench.flushed), bench.logged, sorted(bench.ordered.entries()), failed, cached))
    assert seen[0] == seen[1]


def _taken(bench: Bench, windowed: bool, step: Any, initial: Callable[[], Any], number: int) -> Any:
    store = bench.store
    what, key, *details = step
    if what == "revise":
        function, by, headers, topic = details
        context = RecordContext(100 + (number * 7) % 5, headers, topic, 0, number, b"k", b"v")
        where = (0,) if windowed else ()
        return store.revise(key, by, *where, context, initial, FUNCTIONS[function])
    if what == "flush":
        return store.flush()
    if what == "count":
        return store.approximate_count()
    if what == "all":
        return list(store.all())
    if windowed:
        return store.fetch_one(key, 0) if what == "get" else store.put(key, None, 1, 0, _context())
    return store.get(key) if what == "get" else store.delete(key, _context())


def _context() -> RecordContext:
    return RecordContext(1, (), "t", 0, 0)


def test_a_value_is_serialized_once_for_all_its_updates():
    written: list[int] = []
    bench = Bench(StoreKind.TIMESTAMPED_KEY_VALUE, cache=100_000, value=Serdes.long())
    serialize = bench.store._serialize_value

    def noted(value: int) -> bytes:
        written.append(value)
        return serialize(value)

    bench.store._serialize_value = noted
    for number in range(5):
        bench.store.revise("a", 1, RecordContext(number, (), "t"), lambda: 0, lambda key, value, old: old + value)
    assert written == []
    assert list(bench.ordered.entries()) == []
    bench.store.flush()
    assert written == [5]
    assert bench.log() == [(b"a", b"\x00" * 7 + b"\x05", 4)]


def test_a_read_sees_what_is_held_and_values_are_bytes_until_the_next_flush():
    bench = Bench(StoreKind.TIMESTAMPED_KEY_VALUE, cache=100_000, value=Serdes.long())

    def add() -> None:
        bench.store.revise("a", 1, RecordContext(0, (), "t"), lambda: 0, lambda key, value, old: old + value)

    add()
    assert bench.store.get("a").value == 1
    add()
    assert len(list(bench.ordered.entries())) == 1
    bench.store.flush()
    add()
    assert bench.store._live.held


@pytest.mark.parametrize("flush", ["flush", "flush_and_forget"])
def test_who_is_told_of_a_value_may_delete_it(flush: str) -> None:
    bench = Bench(StoreKind.TIMESTAMPED_KEY_VALUE, cache=100_000, key=Serdes.bytes(), value=Serdes.long())
    store = bench.store

    def delete(key: bytes, new: Any, old: Any, context: RecordContext) -> None:
        if new is not None:
            store.delete(key, context)

    store.on_flush(delete, True)
    store.revise(b"a", 1, RecordContext(0, (), "t"), lambda: 0, lambda key, value, old: old + value)
    getattr(store, flush)()
    store.flush()
    assert bench.log() == [(b"a", b"\x00" * 7 + b"\x01", 0), (b"a", None, 0)]
    assert list(store.all()) == []
