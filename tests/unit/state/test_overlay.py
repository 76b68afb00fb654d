"""Changes over a store that is only read."""

from __future__ import annotations

from headrace.state.memory import MemoryStore
from headrace.state.overlay import OverlayStore


def over(*keys: bytes) -> OverlayStore:
    base = MemoryStore()
    for key in keys:
        base.put(key, b"old")
    return OverlayStore(base)


def test_the_length_counts_each_key_once() -> None:
    store = over(b"a", b"b")
    store.put(b"a", b"new")
    store.put(b"c", b"new")
    assert len(store) == 3


def test_the_length_is_right_after_a_key_that_came_and_went() -> None:
    store = over()
    store.put(b"a", b"new")
    store.delete(b"a")
    assert len(store) == 0


def test_the_length_ignores_the_deletion_of_a_key_that_was_never_there() -> None:
    store = over(b"a")
    store.delete(b"b")
    assert len(store) == 1
    store.delete(b"a")
    assert len(store) == 0
