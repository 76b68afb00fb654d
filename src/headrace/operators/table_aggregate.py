"""aggregate, count and reduce of a grouped table: each update takes its old value out and adds its new one."""

from __future__ import annotations

from typing import Any

from headrace.errors import StreamsError
from headrace.operators.forwarding import forwards_at_once
from headrace.operators.operator import Operator, OperatorContext
from headrace.record import Change, RecordContext
from headrace.state.put_result import LATEST, NOT_PUT
from headrace.topology.operations import TableAggregate, TableReduce


class TableAggregateOperator(Operator):
    """Keeps one aggregate a group."""

    __slots__ = ("adder", "forwards", "initializer", "node", "send_old", "store", "store_name", "subtractor")

    store: Any

    def __init__(self, operation: TableAggregate) -> None:
        self.store_name = operation.store
        self.initializer = operation.initializer
        self.adder = operation.adder
        self.subtractor = operation.subtractor
        self.send_old = operation.send_old
        self.forwards = True
        self.node = ""

    def init(self, ctx: OperatorContext) -> None:
        self.node = ctx.node
        self.store = ctx.store(self.store_name)
        self.forwards = forwards_at_once(self.store, self.forward, self.send_old)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        if key is None:
            raise StreamsError(f"{self.node}: the key of a table aggregation must not be None")
        store = self.store
        timestamp = context.timestamp
        stored = store.get(key)
        old = None
        latest = timestamp
        if stored is not None:
            old = stored.value
            latest = max(timestamp, stored.timestamp)
        new = old
        if value.old is not None and old is not None:
            new = self.subtractor(key, value.old, old)
            timestamp = latest
        if value.new is not None:
            new = self.adder(key, value.new, self.initializer() if new is None else new)
            timestamp = latest
        result = store.put(key, new, timestamp, context)
        if self.forwards and result != NOT_PUT:
            change = Change(new, old if self.send_old else None, result == LATEST)
            self.forward(key, change, context.at(timestamp))


class TableReduceOperator(Operator):
    """Keeps one reduced value a group; without one, the new value is the first."""

    __slots__ = ("adder", "forwards", "node", "send_old", "store", "store_name", "subtractor")

    store: Any

    def __init__(self, operation: TableReduce) -> None:
        self.store_name = operation.store
        self.adder = operation.adder
        self.subtractor = operation.subtractor
        self.send_old = operation.send_old
        self.forwards = True
        self.node = ""

    def init(self, ctx: OperatorContext) -> None:
        self.node = ctx.node
        self.store = ctx.store(self.store_name)
        self.forwards = forwards_at_once(self.store, self.forward, self.send_old)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        if key is None:
            raise StreamsError(f"{self.node}: the key of a table reduction must not be None")
        store = self.store
        timestamp = context.timestamp
        stored = store.get(key)
        old = None
        latest = timestamp
        if stored is not None:
            old = stored.value
            latest = max(timestamp, stored.timestamp)
        new = old
        if value.old is not None and old is not None:
            new = self.subtractor(old, value.old)
            timestamp = latest
        if value.new is not None:
            if new is None:
                new = value.new
            else:
                new = self.adder(new, value.new)
                timestamp = latest
        result = store.put(key, new, timestamp, context)
        if self.forwards and result != NOT_PUT:
            change = Change(new, old if self.send_old else None, result == LATEST)
            self.forward(key, change, context.at(timestamp))
