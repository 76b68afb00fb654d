"""The store of a left or outer stream–stream join: records that have not joined yet, by time, side and key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.record import NO_HEADERS, Headers, RecordContext
from headrace.serdes.forms.list_value import append_to_list, unpack_list
from headrace.serdes.forms.outer_join import (
    pack_join_side_key,
    pack_join_side_value,
    unpack_join_side_key,
    unpack_join_side_value,
)
from headrace.state.environment import StoreEnvironment
from headrace.state.port import OrderedStore
from headrace.state.store import Store, serde_of
from headrace.topology.stores import StoreSpec


class OuterJoinStore(Store):
    """Records of both sides; those of the same time, side and key are one entry."""

    __slots__ = ("_deserialize_right", "_serialize_right")

    def __init__(self, spec: StoreSpec, ordered: OrderedStore, environment: StoreEnvironment) -> None:
        super().__init__(spec, ordered, StoreEnvironment(environment.log, None, environment.dropped))
        right = serde_of(spec, spec.other, "right value")
        self._serialize_right = right.serialize
        self._deserialize_right = right.deserialize

    def put(self, timestamp: int, is_left: bool, key: Any, value: Any, context: RecordContext) -> None:
        """Adds a record."""
        store_key = pack_join_side_key(timestamp, is_left, self._key(key))
        packed = self._serialize_value(value) if is_left else self._serialize_right(value)
        if packed is None:
            raise self.null("value")
        values = append_to_list(self._ordered.get(store_key), pack_join_side_value(is_left, packed))
        self._ordered.put(store_key, values)
        if self._log is not None:
            self._log(store_key, values, context.timestamp, NO_HEADERS)

    def delete(self, timestamp: int, is_left: bool, key: Any, context: RecordContext) -> None:
        """Removes all records of that time, side and key."""
        self._delete(pack_join_side_key(timestamp, is_left, self._key(key)), context)

    def delete_if_present(self, timestamp: int, is_left: bool, key: Any, context: RecordContext) -> None:
        """Removes all records of that time, side and key; where there are none, nothing is logged either."""
        store_key = pack_join_side_key(timestamp, is_left, self._key(key))
        if self._ordered.get(store_key) is not None:
            self._delete(store_key, context)

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        """Takes over a record of the changelog: all records of one time, side and key."""
        if value is None:
            self._ordered.delete(key)
        else:
            self._ordered.put(key, value)

    def all(self) -> Iterator[tuple[int, bool, Any, Any]]:
        """Every record: its time, whether it is of the left side, its key and its value; the earliest first."""
        for store_key, values in self._ordered.range(None, None):
            timestamp, is_left, packed_key = unpack_join_side_key(store_key)
            for side_and_value in unpack_list(values):
                if side_and_value is None:
                    continue
                value_is_left, packed = unpack_join_side_value(side_and_value)
                value = self._deserialize_value(packed) if value_is_left else self._deserialize_right(packed)
                yield timestamp, is_left, self._deserialize_key(packed_key), value

    def _delete(self, store_key: bytes, context: RecordContext) -> None:
        self._ordered.delete(store_key)
        if self._log is not None:
            self._log(store_key, None, context.timestamp, NO_HEADERS)
