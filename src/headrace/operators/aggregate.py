"""aggregate, count and reduce of a grouped stream."""

from __future__ import annotations

from typing import Any

from headrace.operators.forwarding import forwards_at_once
from headrace.operators.operator import Operator, OperatorContext
from headrace.record import Change, RecordContext
from headrace.state.put_result import LATEST, NOT_PUT
from headrace.topology.operations import Function, StreamAggregate, StreamReduce


class StreamAggregateOperator(Operator):
    """Keeps one aggregate a key; its time is the latest of its records."""

    __slots__ = ("aggregator", "ctx", "forwards", "initializer", "send_old", "store", "store_name")

    ctx: OperatorContext
    store: Any

    def __init__(self, operation: StreamAggregate) -> None:
        self.store_name = operation.store
        self.initializer = operation.initializer
        self.aggregator = operation.aggregator
        self.send_old = operation.send_old
        self.forwards = True

    def init(self, ctx: OperatorContext) -> None:
        self.ctx = ctx
        self.store = ctx.store(self.store_name)
        self.forwards = forwards_at_once(self.store, self.forward, self.send_old)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        if key is None or value is None:
            self.ctx.drop(context, "null key or value")
            return
        store = self.store
        if not self.forwards:
            store.revise(key, value, context, self.initializer, self.aggregator)
            return
        timestamp = context.timestamp
        stored = store.get(key)
        if stored is None:
            old = self.initializer()
        else:
            old, old_timestamp = stored
            if old_timestamp > timestamp:
                timestamp = old_timestamp
        new = self.aggregator(key, value, old)
        result = store.put(key, new, timestamp, context)
        if result != NOT_PUT:
            self.forward(key, Change(new, old if self.send_old else None, result == LATEST), context.at(timestamp))


class StreamReduceOperator(Operator):
    """Keeps one reduced value a key; the first record is its first value."""

    __slots__ = ("add", "ctx", "forwards", "reducer", "send_old", "store", "store_name")

    ctx: OperatorContext
    store: Any

    def __init__(self, operation: StreamReduce) -> None:
        self.store_name = operation.store
        self.reducer = reducer = operation.reducer
        self.add: Function = lambda key, value, old: reducer(old, value)
        self.send_old = operation.send_old
        self.forwards = True

    def init(self, ctx: OperatorContext) -> None:
        self.ctx = ctx
        self.store = ctx.store(self.store_name)
        self.forwards = forwards_at_once(self.store, self.forward, self.send_old)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        if key is None or value is None:
            self.ctx.drop(context, "null key or value")
            return
        store = self.store
        if not self.forwards:
            store.revise(key, value, context, None, self.add)
            return
        timestamp = context.timestamp
        stored = store.get(key)
        if stored is None:
            old, new = None, value
        else:
            old, old_timestamp = stored
            new = self.reducer(old, value)
            if old_timestamp > timestamp:
                timestamp = old_timestamp
        result = store.put(key, new, timestamp, context)
        if result != NOT_PUT:
            self.forward(key, Change(new, old if self.send_old else None, result == LATEST), context.at(timestamp))
