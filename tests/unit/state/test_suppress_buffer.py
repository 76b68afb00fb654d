from __future__ import annotations

from headrace.duration import MAX_MILLIS
from headrace.record import NO_HEADERS, Change, RecordContext
from headrace.serdes.forms.buffer_value import SUPPRESS_CHANGELOG_HEADERS, BufferValue, pack_buffered
from headrace.state.java_order import HashOrder
from headrace.topology.stores import StoreKind
from tests.unit.state.support import Bench, at

CONTEXT_SIZE = 8 + 8 + 4 + len("in")


def buffer():
    return Bench(StoreKind.SUPPRESS_BUFFER)


def evict_until(store, time):
    out = []
    store.evict_while(lambda: store.min_timestamp <= time, lambda *entry: out.append(entry))
    return [(key, change.new, change.old, context.timestamp) for key, change, context in out]


def test_updates_leave_in_the_order_of_time_and_key():
    store = buffer().store
    assert store.min_timestamp == MAX_MILLIS
    store.put(2, "b", Change("1", None), at(2))
    store.put(1, "c", Change("1", None), at(1))
    store.put(1, "a", Change("1", None), at(1))
    store.put(9, "a", Change("2", "1"), at(9))
    assert store.num_records == 3
    assert store.min_timestamp == 1
    assert evict_until(store, 1) == [("a", "2", "1", 9), ("c", "1", None, 1)]
    assert store.min_timestamp == 2
    assert evict_until(store, 9) == [("b", "1", None, 2)]
    assert (store.num_records, store.buffer_size, store.min_timestamp) == (0, 0, MAX_MILLIS)


def test_the_prior_value_is_that_before_everything_that_waits():
    store = buffer().store
    assert store.prior_value("a") == (False, None)
    store.put(1, "a", Change("2", "1"), at(1))
    store.put(2, "a", Change("3", "2"), at(2))
    assert store.prior_value("a") == (True, "1")
    store.put(1, "b", Change("1", None), at(1))
    assert store.prior_value("b") == (True, None)


def test_bytes_are_counted_as_in_kafka_streams():
    store = buffer().store
    store.put(1, "key", Change("new", "old"), at(1))
    # Time, key, context, prior and new value; the old value is the prior one and counts once.
    assert store.buffer_size == 8 + 3 + CONTEXT_SIZE + 3 + 3
    store.put(1, "key", Change("newest", "new"), at(1))
    assert store.buffer_size == 8 + 3 + CONTEXT_SIZE + 3 + 3 + 6


def test_a_flush_logs_what_waits_and_tombstones_for_what_has_left():
    bench = buffer()
    context = at(1)
    bench.store.put(5, "a", Change("2", "1"), context)
    assert bench.logged == []
    bench.store.flush()
    value = pack_buffered(BufferValue(b"1", b"1", b"2", context), 5)
    assert bench.logged == [(b"a", value, None, SUPPRESS_CHANGELOG_HEADERS)]
    bench.logged.clear()
    evict_until(bench.store, 5)
    bench.store.flush()
    bench.store.flush()
    assert bench.logged == [(b"a", None, None, NO_HEADERS)]


def test_a_buffer_is_found_again():
    bench = buffer()
    bench.store.put(5, "a", Change("2", None), RecordContext(4, (("h", b"1"),), "in", 1, 2))
    size = bench.store.buffer_size
    store = bench.reopen()
    assert (store.num_records, store.buffer_size, store.min_timestamp) == (1, size, 5)
    assert evict_until(store, 5) == [("a", "2", None, 4)]


def test_dirty_keys_are_logged_in_the_order_of_javas_hash_set():
    # new HashSet<>(List.of(...)) of Bytes: hash codes 31 + b of one-byte keys, 16 buckets.
    assert HashOrder().of([b"b", b"a", b"q", b"\xff"]) == [b"a", b"q", b"b", b"\xff"]
    many = [bytes((number,)) for number in range(40, 20, -1)]
    assert HashOrder().of(many) == [bytes((number,)) for number in (33, 34, 35, 36, 37, 38, 39, 40, *range(21, 33))]
