"""transform_values on a table: a user's stateful transformer, without forwarding."""

from __future__ import annotations

from typing import Any

from headrace.operators.forwarding import forwards_at_once
from headrace.operators.operator import Operator, OperatorContext
from headrace.record import Change, RecordContext
from headrace.state.put_result import LATEST, NOT_PUT
from headrace.topology.operations import Function, TableTransformValues


class Transformer:
    """A user's transformer together with the record that its context shows it."""

    __slots__ = ("_user", "context")

    def __init__(self, supplier: Function, ctx: OperatorContext) -> None:
        self._user = supplier()
        self.context: RecordContext | None = None
        """The record at work; None in between."""
        self._user.init(ctx.processor_context(lambda: self.context))

    def transform(self, key: Any, value: Any, context: RecordContext) -> Any:
        """The new value; tombstones are transformed too."""
        self.context = context
        try:
            return self._user.transform(key, value)
        finally:
            self.context = None

    def close(self) -> None:
        """Closes the user's transformer."""
        self._user.close()


class TableTransformValuesOperator(Operator):
    """Transforms the values of table updates."""

    __slots__ = ("forwards", "send_old", "store", "store_name", "supplier", "transformer")

    transformer: Transformer

    def __init__(self, operation: TableTransformValues) -> None:
        self.supplier = operation.supplier
        self.store_name = operation.store
        self.send_old = operation.send_old
        self.store: Any = None
        self.forwards = True

    def init(self, ctx: OperatorContext) -> None:
        self.transformer = Transformer(self.supplier, ctx)
        if self.store_name is not None:
            self.store = ctx.store(self.store_name)
            self.forwards = forwards_at_once(self.store, self.forward, self.send_old)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        store = self.store
        transform = self.transformer.transform
        new = transform(key, value.new, context)
        old = None
        if store is None:
            if self.send_old:
                old = transform(key, value.old, context)
            self.forward(key, Change(new, old, value.is_latest), context)
            return
        if self.send_old and (stored := store.get(key)) is not None:
            old = stored.value
        result = store.put(key, new, context.timestamp, context)
        if self.forwards and result != NOT_PUT:
            self.forward(key, Change(new, old, result == LATEST), context)

    def close(self) -> None:
        self.transformer.close()
