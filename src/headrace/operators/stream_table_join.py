"""Stream–table joins: each record with the table's value, now or as of the record's time."""

from __future__ import annotations

from typing import Any

from headrace.errors import TopologyError
from headrace.operators.operator import Operator, OperatorContext, ValueGetter
from headrace.record import RecordContext
from headrace.topology.operations import StreamTableJoin


class StreamTableJoinOperator(Operator):
    """Joins each record with a table's value; with a grace period, only once it has passed.

    The buffer holds records back so that updates of a versioned table that arrive late are still seen.
    """

    __slots__ = ("_buffer", "_ctx", "_is_versioned", "_joiner", "_key", "_left", "_operation", "_table")

    _table: ValueGetter

    def __init__(self, operation: StreamTableJoin) -> None:
        self._operation = operation
        self._joiner = operation.joiner
        self._left = operation.left
        self._key = operation.key

    def init(self, ctx: OperatorContext) -> None:
        operation = self._operation
        self._ctx = ctx
        self._table = ctx.view(operation.table)
        self._is_versioned = self._table.is_versioned
        self._buffer = None if operation.buffer_store is None else ctx.store(operation.buffer_store)
        if self._buffer is not None and not self._is_versioned:
            raise TopologyError(f"{ctx.node}: a stream–table join with a grace period needs a versioned table")

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        table_key = key if self._key is None else self._key(key, value)
        if value is None or (table_key is None and not self._left):
            self._ctx.drop(context, "null join key or value")
        elif self._buffer is None:
            self._join(key, value, context, table_key)
        elif self._buffer.put(key, value, context):
            self._buffer.evict(self._join_buffered)
        else:
            self._join(key, value, context, table_key)

    def _join_buffered(self, key: Any, value: Any, context: RecordContext) -> None:
        self._join(key, value, context, key if self._key is None else self._key(key, value))

    def _join(self, key: Any, value: Any, context: RecordContext, table_key: Any) -> None:
        if table_key is None:
            found = None
        elif self._is_versioned:
            found = self._table.get_as_of(table_key, context.timestamp)
        else:
            found = self._table.get(table_key)
        row = None if found is None else found.value
        if self._left or row is not None:
            self.forward(key, self._joiner(key, value, row), context)
