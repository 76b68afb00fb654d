from __future__ import annotations

import pytest

from headrace.errors import StoreError
from headrace.record import NO_HEADERS
from headrace.serdes.forms.buffer_value import BufferValue, pack_buffered
from headrace.serdes.forms.window_key import pack_time_first_key
from headrace.topology.stores import StoreKind
from tests.unit.state.support import Bench, at


def buffer():
    return Bench(StoreKind.STREAM_BUFFER, retention_ms=10)


def evict(store):
    out = []
    store.evict(lambda key, value, context: out.append((key, value, context.timestamp)))
    return out


def test_records_leave_once_their_grace_period_has_passed():
    store = buffer().store
    assert store.put("b", "1", at(5))
    assert store.put("a", "2", at(5))
    assert store.put("a", "3", at(5))
    assert evict(store) == []
    assert store.put("c", "4", at(15))
    assert evict(store) == [("a", "2", 5), ("a", "3", 5), ("b", "1", 5)]
    assert store.num_records == 1
    assert not store.put("d", "5", at(4))
    assert store.put("d", "5", at(5))


def test_each_record_and_each_eviction_is_logged_at_once():
    bench = buffer()
    context = at(5)
    bench.store.put("a", "1", context)
    bench.store.put("b", "2", at(20))
    bench.logged.pop()
    evict(bench.store)
    key = pack_time_first_key(b"a", 5, 1)
    assert bench.logged == [
        (key, pack_buffered(BufferValue(None, None, b"1", context), 0), None, NO_HEADERS),
        (key, None, None, NO_HEADERS),
    ]


def test_a_buffer_is_found_again():
    bench = buffer()
    bench.store.put("a", "1", at(30))
    bench.store.put("a", "2", at(30))
    store = bench.reopen()
    assert not store.put("a", "0", at(19))
    store.put("a", "3", at(30))
    store.put("z", "4", at(40))
    assert [value for _, value, _ in evict(store)] == ["1", "2", "3"]


def test_null_keys_and_values_are_errors():
    with pytest.raises(StoreError, match="key cannot be null"):
        buffer().store.put(None, "1", at(0))
    with pytest.raises(StoreError, match="value cannot be null"):
        buffer().store.put("a", None, at(0))
