from __future__ import annotations

import pytest

from headrace.errors import StoreError
from headrace.serdes import Serde, Serdes
from headrace.serdes.forms.foreign_key import (
    Instruction,
    Subscription,
    combined_key_prefix,
    pack_combined_key,
    pack_subscription,
    unpack_subscription,
)
from headrace.serdes.forms.list_value import pack_list
from headrace.serdes.forms.outer_join import pack_join_side_key, pack_join_side_value
from headrace.topology.stores import StoreKind
from tests.unit.state.support import Bench, at


def outer_join():
    return Bench(StoreKind.OUTER_JOIN, other=Serdes.long())


def test_waiting_records_come_by_time_side_and_key():
    store = outer_join().store
    store.put(5, True, "a", "left", at(5))
    store.put(5, False, "a", 7, at(5))
    store.put(3, True, "b", "1", at(3))
    store.put(3, True, "b", "2", at(3))
    assert list(store.all()) == [
        (3, True, "b", "1"),
        (3, True, "b", "2"),
        (5, False, "a", 7),
        (5, True, "a", "left"),
    ]


def test_waiting_records_of_one_key_are_logged_as_a_list():
    bench = outer_join()
    store = bench.store
    store.put(3, True, "b", "1", at(3))
    store.put(3, True, "b", "2", at(4))
    store.delete_if_present(3, False, "b", at(5))
    store.delete_if_present(3, True, "b", at(6))
    store.delete(3, True, "b", at(7))
    key = pack_join_side_key(3, True, b"b")
    first, second = pack_join_side_value(True, b"1"), pack_join_side_value(True, b"2")
    assert bench.log() == [
        (key, pack_list([first]), 3),
        (key, pack_list([first, second]), 4),
        (key, None, 6),
        (key, None, 7),
    ]
    assert list(store.all()) == []


def test_records_can_be_deleted_while_all_are_read():
    store = outer_join().store
    for time in range(5):
        store.put(time, True, "a", str(time), at(0))
    seen = []
    for time, is_left, key, value in store.all():
        seen.append(value)
        store.delete(time, is_left, key, at(0))
    assert seen == ["0", "1", "2", "3", "4"]
    assert list(store.all()) == []


def test_subscriptions_are_found_by_foreign_key():
    serde: Serde = Serde(lambda subscription: pack_subscription(*subscription[:4]), unpack_subscription)
    bench = Bench(StoreKind.SUBSCRIPTION, key=Serdes.bytes(), value=serde)
    store = bench.store
    asked = Subscription(bytes(16), Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE, b"pk", 0)
    key = pack_combined_key(b"fk", b"pk")
    store.put(key, asked, 3, at(4))
    store.put(pack_combined_key(b"f", b"k"), asked, 3, at(4))
    assert store.get(key).value == asked
    assert [subscription for _, (subscription, _) in store.prefix(combined_key_prefix(b"fk"))] == [asked]
    store.delete(key, at(5))
    assert list(store.prefix(combined_key_prefix(b"fk"))) == []
    log = bench.log()
    assert log[0] == (key, serde.serialize(asked), 3)
    assert log[-1] == (key, None, 5)


def test_a_missing_serde_is_an_error():
    with pytest.raises(StoreError, match="Store s: it has no right value serde"):
        Bench(StoreKind.OUTER_JOIN)
