"""Changes over a store that is only read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

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


@given(
    base=st.dictionaries(st.binary(min_size=2, max_size=4), st.binary(max_size=1), max_size=8),
    changes=st.lists(st.tuples(st.binary(min_size=2, max_size=4), st.none() | st.binary(max_size=1)), max_size=8),
    prefix=st.binary(max_size=2),
    asked_first=st.booleans(),
)
def test_a_family_is_what_a_range_finds_of_one_length(
    base: dict[bytes, bytes], changes: list[tuple[bytes, bytes | None]], prefix: bytes, asked_first: bool
) -> None:
    below = MemoryStore()
    for key, value in base.items():
        below.put(key, value)
    overlay = OverlayStore(below)
    low, high = prefix, prefix + b"\xff" * 3
    if asked_first:
        overlay.family(prefix, 2, low, high)
    for key, change in changes:
        if change is None:
            overlay.delete(key)
        else:
            overlay.put(key, change)
    expected = [entry for entry in overlay.range(low, high) if len(entry[0]) == len(prefix) + 2]
    assert list(overlay.family(prefix, 2, low, high) or ()) == expected


def test_a_key_that_is_put_while_a_scan_goes_on_is_seen_with_its_new_value() -> None:
    store = over(b"a", b"b", b"c")
    seen = []
    for key, value in store.range(None, None):
        seen.append((key, value))
        if key == b"a":
            store.put(b"c", b"new")
    assert seen == [(b"a", b"old"), (b"b", b"old"), (b"c", b"new")]


def test_a_key_that_is_put_again_while_a_scan_goes_on_is_seen_once() -> None:
    store = over(b"a", b"b")
    store.put(b"a", b"new")
    seen = []
    for key, value in store.range(None, None):
        seen.append((key, value))
        store.put(b"a", b"newer")
    assert seen == [(b"a", b"new"), (b"b", b"old")]
