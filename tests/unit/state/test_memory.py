from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.state.memory import MemoryStore
from headrace.state.port import OrderedStore, after_prefix

KEYS = st.binary(max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, KEYS),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("range"), st.none() | KEYS, st.none() | KEYS, st.booleans()),
        st.tuples(st.just("first")),
    ),
    max_size=200,
)


@given(STEPS)
def test_it_is_a_sorted_map(steps):
    store: OrderedStore = MemoryStore()
    model: dict[bytes, bytes] = {}
    for step in steps:
        if step[0] == "put":
            store.put(step[1], step[2])
            model[step[1]] = step[2]
        elif step[0] == "delete":
            store.delete(step[1])
            model.pop(step[1], None)
        elif step[0] == "first":
            assert next(store.range(None, None), None) == next(iter(sorted(model.items())), None)
        else:
            _, low, high, reverse = step
            found = [
                (key, value)
                for key, value in sorted(model.items(), reverse=reverse)
                if (low is None or key >= low) and (high is None or key < high)
            ]
            assert list(store.range(low, high, reverse=reverse)) == found
        assert len(store) == len(model)


def test_a_range_has_the_keys_of_the_time_it_was_asked_for_less_what_is_deleted():
    store = MemoryStore()
    for key in (b"a", b"c", b"e"):
        store.put(key, b"1")
    entries = store.range(None, None)
    assert next(entries) == (b"a", b"1")
    store.put(b"b", b"2")
    store.delete(b"c")
    store.delete(b"a")
    store.put(b"e", b"3")
    assert list(store.range(None, None)) == [(b"b", b"2"), (b"e", b"3")]
    assert list(entries) == [(b"e", b"3")]


def test_a_queue_of_many_entries_keeps_its_order():
    store = MemoryStore()
    for number in range(5000):
        store.put(number.to_bytes(4, "big"), b"")
    for number in range(5000):
        entry = next(store.range(None, None))
        assert entry[0] == number.to_bytes(4, "big")
        store.delete(entry[0])
        store.put((number + 5000).to_bytes(4, "big"), b"")
    assert len(list(store.range(None, None))) == 5000


def test_metadata_is_no_entry():
    store = MemoryStore()
    store.meta_put("stream-time", b"7")
    assert store.meta_get("stream-time") == b"7"
    assert store.meta_get("other") is None
    assert list(store.range(None, None)) == []


def test_after_prefix():
    assert after_prefix(b"ab") == b"ac"
    assert after_prefix(b"a\xff\xff") == b"b"
    assert after_prefix(b"\xff") is None
    assert after_prefix(b"") is None
