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


keys = st.binary(min_size=2, max_size=4)
steps = st.lists(
    st.tuples(st.just("put"), keys, st.binary(max_size=1))
    | st.tuples(st.just("delete"), keys, st.none())
    | st.tuples(st.just("clear"), keys, keys),
    max_size=12,
)


@given(base=st.dictionaries(keys, st.binary(max_size=1), max_size=8), steps=steps, asked_first=st.booleans())
def test_what_is_put_deleted_and_cleared_shows_at_once_and_is_what_changes(
    base: dict[bytes, bytes], steps: list[tuple[str, bytes, bytes]], asked_first: bool
) -> None:
    below, expected = MemoryStore(), dict(base)
    for key, value in base.items():
        below.put(key, value)
    overlay = OverlayStore(below)
    if asked_first:
        overlay.families(slice(-2))
        list(overlay.range(None, None))
    for step, key, second in steps:
        assert overlay.get(key) == expected.get(key)
        if step == "put":
            overlay.put(key, second)
            expected[key] = second
        elif step == "delete":
            overlay.delete(key)
            expected.pop(key, None)
        else:
            overlay.clear(key, second)
            expected = {each: value for each, value in expected.items() if not key <= each < second}
    assert list(overlay.range(None, None)) == sorted(expected.items())
    assert list(overlay.range(None, None, reverse=True)) == sorted(expected.items())[::-1]
    assert len(overlay) == len(expected)
    assert {key: overlay.get(key) for _, key, _ in steps} == {key: expected.get(key) for _, key, _ in steps}

    changes = overlay.changes()
    for low, high in changes.cleared:
        below.clear(low, high)
    for changed, change in changes.entries.items():
        if change is None:
            below.delete(changed)
        else:
            below.put(changed, change)
    assert list(below.range(None, None)) == sorted(expected.items())


@given(base=st.dictionaries(keys, st.binary(max_size=1), max_size=8), steps=steps, prefix=st.binary(max_size=2))
def test_a_family_and_the_base_have_all_keys_of_a_prefix(
    base: dict[bytes, bytes], steps: list[tuple[str, bytes, bytes]], prefix: bytes
) -> None:
    below = MemoryStore()
    for key, value in base.items():
        below.put(key, value)
    overlay = OverlayStore(below)
    families = overlay.families(slice(-2))
    for step, key, second in steps:
        if step == "put":
            overlay.put(key, second)
        elif step == "delete":
            overlay.delete(key)
        else:
            overlay.clear(key, second)
    low, high = prefix, prefix + b"\xff" * 3
    family = families.get(prefix, [])
    found = {*([family] if isinstance(family, bytes) else family), *overlay.in_base(low, high)}
    length = len(prefix) + 2
    members = [key for key in sorted(found) if low <= key < high and len(key) == length]
    expected = [entry for entry in overlay.range(low, high) if len(entry[0]) == length]
    assert [(key, overlay.get(key)) for key in members if overlay.get(key) is not None] == expected


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
