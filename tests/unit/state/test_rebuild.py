"""Stores rebuilt from what they have logged."""

from __future__ import annotations

import random
import struct

import pytest

from headrace.duration import MAX_MILLIS
from headrace.record import Change
from headrace.serdes import Serdes
from headrace.serdes.forms.buffer_value import SUPPRESS_CHANGELOG_HEADERS, BufferValue, pack_buffered
from headrace.serdes.forms.foreign_key import pack_combined_key
from headrace.serdes.forms.sized import pack_sized
from headrace.serdes.forms.window_key import pack_time_first_key, pack_window_store_key
from headrace.state.lmdb_store import LmdbStores
from headrace.state.memory import MemoryStore
from headrace.state.rebuild import rebuild, rebuilt_changes
from headrace.topology.stores import StoreKind
from headrace.windowed import Window, Windowed
from tests.unit.state.support import CACHE, Bench, at


def put_key_value(store, draw, time):
    store.put(draw.choice("abcd"), draw.choice(["1", "2", None]), at(time))


def put_timestamped(store, draw, time):
    store.put(draw.choice("abcd"), draw.choice(["1", "2", None]), time, at(time))


def put_window(store, draw, time):
    store.put(draw.choice("ab"), draw.choice(["1", "2", None]), time // 100 * 100, at(time))


def put_timestamped_window(store, draw, time):
    store.put(draw.choice("ab"), draw.choice(["1", "2", None]), time, time // 100 * 100, at(time))


def put_session(store, draw, time):
    session = Windowed(draw.choice("ab"), Window(time, time + 50))
    store.put(session, draw.choice(["1", "2", None]), at(time))


def put_suppressed(store, draw, time):
    store.put(time, draw.choice("abcd"), Change(draw.choice(["1", None]), draw.choice(["0", None])), at(time))
    if draw.random() < 0.3:
        store.evict_while(lambda: store.min_timestamp < time, lambda *update: None)


def put_buffered(store, draw, time):
    store.put(draw.choice("ab"), "1", at(time))
    store.evict(lambda *record: None)


def put_unjoined(store, draw, time):
    if draw.random() < 0.3:
        store.delete(time // 100, True, draw.choice("ab"), at(time))
    else:
        store.put(time // 100, draw.random() < 0.5, draw.choice("ab"), "1", at(time))


def put_subscription(store, draw, time):
    key = pack_combined_key(draw.choice([b"f", b"fk"]), draw.choice([b"p", b"q"]))
    store.put(key, draw.choice(["asks", None]), time, at(time))


BYTES, WINDOWS = {"key": Serdes.bytes()}, {"retention_ms": 100_000, "window_size_ms": 100}
KINDS = {
    "key-value": (StoreKind.KEY_VALUE, put_key_value, {}),
    "timestamped": (StoreKind.TIMESTAMPED_KEY_VALUE, put_timestamped, {}),
    "time to live": (StoreKind.TIMESTAMPED_KEY_VALUE, put_timestamped, {"ttl_ms": 1_000}),
    "versioned": (StoreKind.VERSIONED, put_timestamped, {"retention_ms": 5_000}),
    "window": (StoreKind.WINDOW, put_window, WINDOWS),
    "window, by time": (StoreKind.WINDOW, put_window, {**WINDOWS, "time_ordered": True}),
    "window, duplicates": (StoreKind.WINDOW, put_window, {**WINDOWS, "retain_duplicates": True}),
    "window, timestamped": (StoreKind.TIMESTAMPED_WINDOW, put_timestamped_window, WINDOWS),
    "session": (StoreKind.SESSION, put_session, WINDOWS),
    "session, by time": (StoreKind.SESSION, put_session, {**WINDOWS, "time_ordered": True}),
    "suppress buffer": (StoreKind.SUPPRESS_BUFFER, put_suppressed, {}),
    "stream buffer": (StoreKind.STREAM_BUFFER, put_buffered, {"retention_ms": 500}),
    "outer join": (StoreKind.OUTER_JOIN, put_unjoined, {"other": Serdes.string()}),
    "subscription": (StoreKind.SUBSCRIPTION, put_subscription, BYTES),
}


def test_every_kind_is_tested():
    assert {kind for kind, _, _ in KINDS.values()} == set(StoreKind)


@pytest.fixture(params=KINDS)
def used(request):
    """A store after many updates and commits, and what it has logged."""
    kind, put, options = KINDS[request.param]
    draw = random.Random(1)
    bench = Bench(kind, **options)
    time = 0
    for number in range(2_000):
        time += draw.choice([0, 1, 50, 50, -40, 700])
        put(bench.store, draw, max(0, time))
        if number % 3 == 0:
            bench.store.flush()
    bench.store.flush()
    assert len(bench.logged) > 500
    return bench


def records(bench):
    return [
        (key, value, 0 if timestamp is None else timestamp, headers) for key, value, timestamp, headers in bench.logged
    ]


def test_rebuilt_equals_kept_with_its_facts(used):
    rebuilt = MemoryStore()
    rebuild(used.spec, rebuilt, records(used))
    assert dict(rebuilt.entries()) == dict(used.ordered.entries())
    assert rebuilt.facts() == used.ordered.facts()


def test_pieces_over_what_is_there_give_the_same(used, tmp_path):
    stores = LmdbStores(str(tmp_path), 1 << 26)
    stores.database("s")
    logged = records(used)
    for start in range(0, len(logged), 100):
        with stores.environment.begin(write=True) as transaction:
            changes = rebuilt_changes(used.spec, stores.reader(transaction, "s"), logged[start : start + 100])
            stores.apply(transaction, {"s": changes})
    with stores.environment.begin() as transaction:
        reader = stores.reader(transaction, "s")
        assert dict(reader.range(None, None)) == dict(used.ordered.entries())
        assert {name: reader.meta_get(name) for name in used.ordered.facts()} == used.ordered.facts()
    stores.close()


def test_what_compaction_leaves_and_the_facts_give_the_same(used):
    if used.spec.kind is StoreKind.VERSIONED:
        pytest.skip("its changelog is not compacted while the history is retained")
    logged = records(used)
    last = {record[0]: record for record in logged}
    compacted = [record for record in logged if last[record[0]] is record and record[1] is not None]
    rebuilt = MemoryStore()
    rebuild(used.spec, rebuilt, compacted)
    for name, fact in used.ordered.facts().items():
        rebuilt.meta_put(name, fact)
    kept = used.ordered
    used.ordered = rebuilt
    used.open()
    assert dict(rebuilt.entries()) == dict(kept.entries())


def test_a_rebuild_neither_logs_nor_expires():
    bench = Bench(StoreKind.TIMESTAMPED_KEY_VALUE, ttl_ms=10)
    rebuild(bench.spec, bench.ordered, [(b"a", b"1", 0, ()), (b"b", b"1", 100, ())])
    store = bench.open()
    assert [key for key, _ in store.all()] == ["b"]
    assert store.expire() == 1
    assert bench.log() == [(b"a", None, 100)]


def test_the_clock_of_a_time_to_live_is_not_that_of_deletions():
    bench = Bench(StoreKind.TIMESTAMPED_KEY_VALUE, ttl_ms=10)
    rebuild(bench.spec, bench.ordered, [(b"a", b"1", 5, ()), (b"b", None, 100, ())])
    assert [key for key, _ in bench.open().all()] == ["a"]


def test_a_cached_window_store_is_rebuilt():
    bench = Bench(StoreKind.TIMESTAMPED_WINDOW, cache=CACHE, retention_ms=100_000, window_size_ms=10)
    for time in (0, 10, 5, 200_000):
        bench.store.put("a", str(time), time, time // 10 * 10, at(time))
    bench.store.put("a", None, 10, 10, at(10))
    bench.store.flush()
    bench.open()
    rebuilt = MemoryStore()
    rebuild(bench.spec, rebuilt, records(bench))
    assert dict(rebuilt.entries()) == dict(bench.ordered.entries())
    assert rebuilt.facts() == bench.ordered.facts()


def test_duplicates_of_kafka_streams_that_count_from_1_again_are_not_overwritten():
    bench = Bench(StoreKind.WINDOW, retention_ms=100, window_size_ms=10, retain_duplicates=True)
    logged = [(pack_window_store_key(b"a", 0, number), b"old", 0, ()) for number in (1, 2, 3)]
    logged.append((pack_window_store_key(b"b", 0, 1), b"new", 0, ()))
    rebuild(bench.spec, bench.ordered, logged)
    store = bench.open()
    store.put("a", "newest", 0, at(0))
    assert [value for _, value in store.fetch("a", 0, 0)] == ["old", "old", "old", "newest"]


def test_duplicates_have_the_numbers_of_the_changelog():
    bench = Bench(StoreKind.WINDOW, retention_ms=100, window_size_ms=10, retain_duplicates=True)
    for value in ("1", None, "2"):
        bench.store.put("a", value, 0, at(0))
    assert [key for key, value, *_ in bench.logged if value is not None] == [
        key[8:] for key, _ in bench.ordered.range(None, None)
    ]
    assert bench.store.fetch_one("a", 0) == "2"


def test_a_stream_buffer_knows_from_tombstones_how_far_its_time_was():
    bench = Bench(StoreKind.STREAM_BUFFER, retention_ms=10)
    value = pack_buffered(BufferValue(None, None, b"1", at(5)), 0)
    key, later = pack_time_first_key(b"a", 5, 1), pack_time_first_key(b"a", 6, 2)
    rebuild(bench.spec, bench.ordered, [(key, value, 0, ()), (later, value, 0, ()), (key, None, 0, ())])
    store = bench.open()
    assert store.num_records == 1
    assert not store.put("a", "too late", at(4))
    assert store.put("b", "in time", at(5))
    assert [record[0][-1] for record in bench.logged] == [3]


def test_an_update_buffered_again_waits_for_its_new_time():
    bench = Bench(StoreKind.SUPPRESS_BUFFER)
    logged = [
        (b"a", pack_buffered(BufferValue(None, None, new, at(time)), time), 0, SUPPRESS_CHANGELOG_HEADERS)
        for new, time in ((b"1", 5), (b"2", 7))
    ]
    rebuild(bench.spec, bench.ordered, logged)
    store = bench.open()
    assert (store.num_records, store.min_timestamp) == (1, 7)
    rebuild(bench.spec, bench.ordered, [(b"a", None, 0, ()), (b"unknown", None, 0, ())])
    store = bench.open()
    assert (store.num_records, store.buffer_size, store.min_timestamp) == (0, 0, MAX_MILLIS)
    assert len(bench.ordered) == 0


def test_updates_of_kafka_streams_2_1_keep_the_first_prior_value():
    bench = Bench(StoreKind.SUPPRESS_BUFFER)
    logged = [
        (b"a", struct.pack(">q", 5) + pack_sized(old) + pack_sized(new), 3, ())
        for old, new in ((b"0", b"1"), (b"1", b"2"))
    ]
    rebuild(bench.spec, bench.ordered, logged)
    store = bench.open()
    assert store.prior_value("a") == (True, "0")
    out = []
    store.evict_while(lambda: store.num_records > 0, lambda *update: out.append(update))
    assert [(key, change.new, change.old, context.timestamp) for key, change, context in out] == [("a", "2", "1", 3)]
