from __future__ import annotations

from headrace.record import RecordContext
from headrace.state.cache import RecordCache
from headrace.topology.stores import StoreKind
from tests.unit.state.support import Bench, at

# As Kafka Streams counts: 24 for the links of an entry, 1 for its flag, 20 for timestamp, offset and
# partition, then the lengths of key, value, topic and headers.
ENTRY = 45


def test_entries_are_counted_as_in_kafka_streams():
    bench = Bench(StoreKind.KEY_VALUE, cache=1000)
    assert bench.cache is not None
    bench.store.put("key", "value", RecordContext(0, (("h", b"12"), ("n", None)), "topic", 0, 0))
    assert bench.cache.size == ENTRY + 3 + 5 + 5 + 4
    bench.store.put("key", None, at(0))
    assert bench.cache.size == ENTRY + 3 + 2
    bench.store.flush()
    assert bench.cache.size == 0


def test_a_value_that_is_read_is_counted_too():
    bench = Bench(StoreKind.KEY_VALUE, cache=1000)
    assert bench.cache is not None
    bench.ordered.put(b"key", b"value")
    assert bench.store.get("key") == "value"
    assert bench.cache.size == ENTRY + 3 + 5
    assert bench.store.get("none") is None
    assert bench.cache.size == ENTRY + 3 + 5


def test_an_eviction_flushes_the_whole_store_the_evicted_entry_first():
    bench = Bench(StoreKind.KEY_VALUE, cache=3 * (ENTRY + 4))
    bench.listen()
    for key in "abc":
        bench.store.put(key, "1", at(1))
    bench.store.get("a")
    assert bench.log() == []
    bench.store.put("d", "1", at(2))
    assert [key for key, _, _ in bench.log()] == [b"b", b"a", b"c", b"d"]
    assert [flushed[0] for flushed in bench.flushed] == ["b", "a", "c", "d"]
    bench.store.put("e", "1", at(3))
    bench.store.flush()
    assert [key for key, _, _ in bench.log()] == [b"e"]


def test_an_entry_larger_than_the_cache_passes_at_once():
    bench = Bench(StoreKind.KEY_VALUE, cache=10)
    bench.listen()
    bench.store.put("a", "1", at(1))
    assert bench.log() == [(b"a", b"1", 1)]
    assert bench.cache is not None
    assert bench.cache.size == 0


def test_stores_share_the_bytes_and_evict_their_own_entries():
    cache = RecordCache(2 * (ENTRY + 4))
    first, second = Bench(StoreKind.KEY_VALUE, cache=cache), Bench(StoreKind.KEY_VALUE, cache=cache)
    first.store.put("a", "1", at(1))
    first.store.put("b", "1", at(1))
    second.store.put("c", "1", at(1))
    assert first.log() == []
    assert [key for key, _, _ in second.log()] == [b"c"]
    assert cache.size == 2 * (ENTRY + 4)
    first.store.close()
    assert cache.size == 0


def test_an_update_made_while_entries_are_let_through_waits_for_the_next_flush():
    bench = Bench(StoreKind.KEY_VALUE, cache=10_000)
    store = bench.store

    def again(key, new, old, context):
        bench.flushed.append((key, new, old, context.timestamp))
        if new == "1":
            store.put(key, "2", at(9))

    store.on_flush(again, True)
    store.put("a", "1", at(1))
    store.flush()
    store.flush()
    assert bench.flushed == [("a", "1", None, 1), ("a", "2", "1", 9)]
