"""Operators on tables: the source, filter, map_values, and the regrouping of `group_by`."""

from __future__ import annotations

import logging
from typing import Any

from headrace.errors import StreamsError
from headrace.operators.forwarding import forwards_at_once
from headrace.operators.operator import Operator, OperatorContext
from headrace.record import Change, RecordContext
from headrace.state.put_result import LATEST, NOT_PUT
from headrace.topology.operations import (
    TableFilter,
    TableMapValues,
    TablePassThrough,
    TableRepartitionMap,
    TableSource,
)

logger = logging.getLogger(__name__)


class TableSourceOperator(Operator):
    """Turns records into table updates and keeps the table where it has a store."""

    __slots__ = ("ctx", "forwards", "send_old", "store", "store_name")

    ctx: OperatorContext

    def __init__(self, operation: TableSource) -> None:
        self.store_name = operation.store
        self.send_old = operation.send_old
        self.store: Any = None
        self.forwards = True

    def init(self, ctx: OperatorContext) -> None:
        self.ctx = ctx
        if self.store_name is not None:
            self.store = ctx.store(self.store_name)
            self.forwards = forwards_at_once(self.store, self.forward, self.send_old)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        if key is None:
            self.ctx.drop(context, "null key")
            return
        store = self.store
        if store is None:
            self.forward(key, Change(value, None), context)
            return
        timestamp = context.timestamp
        old = store.get(key)
        if old is not None and timestamp < old.timestamp:
            logger.warning(
                "Out-of-order update of table %s: the old value is of %d, the new one of %d. %s-%d, offset %d",
                *(self.store_name, old.timestamp, timestamp, context.topic, context.partition, context.offset),
            )
        result = store.put(key, value, timestamp, context)
        if self.forwards and result != NOT_PUT:
            old_value = old.value if self.send_old and old is not None else None
            self.forward(key, Change(value, old_value, result == LATEST), context)


class TableFilterOperator(Operator):
    """Filters table updates; what no longer fits becomes a tombstone."""

    __slots__ = ("forwards", "negate", "predicate", "send_old", "store", "store_name", "versioned")

    def __init__(self, operation: TableFilter) -> None:
        self.predicate = operation.predicate
        self.negate = bool(operation.negate)
        self.store_name = operation.store
        self.send_old = operation.send_old
        self.versioned = operation.versioned
        self.store: Any = None
        self.forwards = True

    def init(self, ctx: OperatorContext) -> None:
        if self.store_name is not None:
            self.store = ctx.store(self.store_name)
            self.forwards = forwards_at_once(self.store, self.forward, self.send_old)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        store = self.store
        new = self._filtered(key, value.new)
        old = None
        if self.send_old:
            if store is None:
                old = self._filtered(key, value.old)
            elif (stored := store.get(key)) is not None:
                old = stored.value
            if new is None and old is None and not self.versioned:
                return
        if store is None:
            self.forward(key, Change(new, old, value.is_latest), context)
            return
        result = store.put(key, new, context.timestamp, context)
        if self.forwards and result != NOT_PUT:
            self.forward(key, Change(new, old, result == LATEST), context)

    def _filtered(self, key: Any, value: Any) -> Any:
        if value is not None and (not self.predicate(key, value)) is self.negate:
            return value
        return None


class TableMapValuesOperator(Operator):
    """Maps the values of table updates; tombstones stay tombstones."""

    __slots__ = ("forwards", "mapper", "send_old", "store", "store_name")

    def __init__(self, operation: TableMapValues) -> None:
        self.mapper = operation.mapper
        self.store_name = operation.store
        self.send_old = operation.send_old
        self.store: Any = None
        self.forwards = True

    def init(self, ctx: OperatorContext) -> None:
        if self.store_name is not None:
            self.store = ctx.store(self.store_name)
            self.forwards = forwards_at_once(self.store, self.forward, self.send_old)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        store = self.store
        mapper = self.mapper
        new = None if value.new is None else mapper(key, value.new)
        old = None
        if self.send_old:
            if store is None:
                old = None if value.old is None else mapper(key, value.old)
            elif (stored := store.get(key)) is not None:
                old = stored.value
        if store is None:
            self.forward(key, Change(new, old, value.is_latest), context)
            return
        result = store.put(key, new, context.timestamp, context)
        if self.forwards and result != NOT_PUT:
            self.forward(key, Change(new, old, result == LATEST), context)


class TableRepartitionMapOperator(Operator):
    """Regroups table updates: the old value leaves its group, the new one enters its own."""

    __slots__ = ("mapper", "node", "versioned")

    def __init__(self, operation: TableRepartitionMap) -> None:
        self.mapper = operation.mapper
        self.versioned = operation.versioned
        self.node = ""

    def init(self, ctx: OperatorContext) -> None:
        self.node = ctx.node

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        if key is None:
            raise StreamsError(f"{self.node}: the key of a table update to be grouped must not be None")
        new, old, is_latest = value
        if self.versioned and not is_latest:
            return
        new_key, new_value = self._regrouped(key, new)
        old_key, old_value = self._regrouped(key, old)
        leaves = old_key is not None and old_value is not None
        enters = new_key is not None and new_value is not None
        if leaves and enters and old_key == new_key:
            self.forward(old_key, Change(new_value, old_value, is_latest), context)
            return
        if leaves:
            self.forward(old_key, Change(None, old_value, is_latest), context)
        if enters:
            self.forward(new_key, Change(new_value, None, is_latest), context)

    def _regrouped(self, key: Any, value: Any) -> Any:
        if value is None:
            return _NO_GROUP
        pair = self.mapper(key, value)
        return _NO_GROUP if pair is None else pair


class TablePassThroughOperator(Operator):
    """Passes table updates on."""

    __slots__ = ()

    def __init__(self, operation: TablePassThrough) -> None:
        pass

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        self.forward(key, value, context)


_NO_GROUP = (None, None)
