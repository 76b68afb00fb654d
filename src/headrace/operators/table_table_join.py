"""Table–table joins by key: each side joins its updates with the other table, a merge brings the results together."""

from __future__ import annotations

from typing import Any

from headrace.operators.forwarding import forwards_at_once
from headrace.operators.operator import Operator, OperatorContext, ValueGetter
from headrace.record import Change, RecordContext
from headrace.state.put_result import LATEST, NOT_PUT
from headrace.topology.operations import TableJoinKind, TableJoinMerge, TableTableJoin


class TableTableJoinOperator(Operator):
    """Joins each update of one side with the other table's value; the result's time is the later of the two."""

    __slots__ = ("_ctx", "_joiner", "_needs_other", "_needs_own", "_other", "_send_old", "_versioned", "_view")

    _other: ValueGetter

    def __init__(self, operation: TableTableJoin) -> None:
        self._view = operation.other
        self._joiner = operation.joiner
        self._send_old = operation.send_old
        self._versioned = operation.versioned
        self._needs_own = operation.kind in (TableJoinKind.INNER, TableJoinKind.LEFT)
        self._needs_other = operation.kind in (TableJoinKind.INNER, TableJoinKind.RIGHT)

    def init(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._other = ctx.view(self._view)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        new, old, is_latest = value
        if key is None:
            self._ctx.drop(context, "null key")
            return
        if self._versioned and not is_latest:
            self._ctx.drop(context, "out-of-order record of a versioned table in a table–table join")
            return

        found = self._other.get(key)
        if found is None or found.value is None:
            if self._needs_other or (new is None and old is None):
                return
            other, has_result_alone = None, False
        else:
            other, has_result_alone = found.value, not self._needs_own
            context = context.at(max(context.timestamp, found.timestamp))

        joiner = self._joiner
        new_result = joiner(key, new, other) if new is not None or has_result_alone else None
        old_result = None
        if self._send_old and (old is not None or has_result_alone):
            old_result = joiner(key, old, other)
        self.forward(key, Change(new_result, old_result, is_latest), context)


class TableJoinMergeOperator(Operator):
    """Passes the results of both sides on, and keeps them where the joined table has a store."""

    __slots__ = ("_forwards", "_name", "_send_old", "_store")

    def __init__(self, operation: TableJoinMerge) -> None:
        self._name = operation.store
        self._send_old = operation.send_old

    def init(self, ctx: OperatorContext) -> None:
        self._store = None if self._name is None else ctx.store(self._name)
        self._forwards = self._store is None or forwards_at_once(self._store, self.forward, self._send_old)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        new, old, is_latest = value
        if self._store is not None:
            result = self._store.put(key, new, context.timestamp, context)
            if result == NOT_PUT or not self._forwards:
                return
            is_latest = result == LATEST
        self.forward(key, Change(new, old if self._send_old else None, is_latest), context)
