"""Operators without state on streams, and the step from a table to a stream."""

from __future__ import annotations

from typing import Any

from headrace.operators.operator import Forward, Operator, OperatorContext
from headrace.record import RecordContext
from headrace.topology.operations import (
    Branch,
    Filter,
    FlatMap,
    FlatMapValues,
    Foreach,
    Function,
    Map,
    MapValues,
    PassThrough,
    Peek,
    Print,
    SelectKey,
    ToStream,
)


class FilterOperator(Operator):
    """Keeps the records that fit the predicate, or those that do not."""

    __slots__ = ("negate", "predicate")

    def __init__(self, operation: Filter) -> None:
        self.predicate = operation.predicate
        self.negate = bool(operation.negate)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        # `not` makes a bool of whatever the predicate returns, so one comparison serves both cases
        if (not self.predicate(key, value)) is self.negate:
            self.forward(key, value, context)


class MapOperator(Operator):
    """Gives each record a new key and value."""

    __slots__ = ("mapper",)

    def __init__(self, operation: Map) -> None:
        self.mapper = operation.mapper

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        pair = self.mapper(key, value)
        try:
            new_key, new_value = pair
        except (TypeError, ValueError):
            raise _not_a_pair(self.mapper, pair) from None
        self.forward(new_key, new_value, context)


class SelectKeyOperator(Operator):
    """Gives each record a new key."""

    __slots__ = ("mapper",)

    def __init__(self, operation: SelectKey) -> None:
        self.mapper = operation.mapper

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        self.forward(self.mapper(key, value), value, context)


class MapValuesOperator(Operator):
    """Gives each record a new value."""

    __slots__ = ("mapper",)

    def __init__(self, operation: MapValues) -> None:
        self.mapper = operation.mapper

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        self.forward(key, self.mapper(key, value), context)


class FlatMapOperator(Operator):
    """Makes any number of records of each."""

    __slots__ = ("mapper",)

    def __init__(self, operation: FlatMap) -> None:
        self.mapper = operation.mapper

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        forward = self.forward
        for pair in self.mapper(key, value):
            try:
                new_key, new_value = pair
            except (TypeError, ValueError):
                raise _not_a_pair(self.mapper, pair) from None
            forward(new_key, new_value, context)


class FlatMapValuesOperator(Operator):
    """Makes any number of records with the same key of each."""

    __slots__ = ("mapper",)

    def __init__(self, operation: FlatMapValues) -> None:
        self.mapper = operation.mapper

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        forward = self.forward
        for new_value in self.mapper(key, value):
            forward(key, new_value, context)


class PeekOperator(Operator):
    """Calls the action and passes the record on."""

    __slots__ = ("action",)

    def __init__(self, operation: Peek) -> None:
        self.action = operation.action

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        self.action(key, value)
        self.forward(key, value, context)


class ForeachOperator(Operator):
    """Calls the action; nothing follows."""

    __slots__ = ("action",)

    def __init__(self, operation: Foreach) -> None:
        self.action = operation.action

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        self.action(key, value)


class PrintOperator(Operator):
    """Prints `[label]: key, value`; nothing follows."""

    __slots__ = ("label",)

    def __init__(self, operation: Print) -> None:
        self.label = operation.label

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        print(f"[{self.label}]: {key}, {value}", flush=True)


class PassThroughOperator(Operator):
    """Passes every record on."""

    __slots__ = ()

    def __init__(self, operation: PassThrough) -> None:
        pass

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        self.forward(key, value, context)


class BranchOperator(Operator):
    """Sends each record to the child of the first predicate that holds."""

    __slots__ = ("branches", "default", "default_child", "named_branches")

    def __init__(self, operation: Branch) -> None:
        self.named_branches = tuple(zip(operation.predicates, operation.children, strict=True))
        self.default_child = operation.default
        self.branches: tuple[tuple[Function, Forward], ...] = ()
        self.default: Forward | None = None

    def init(self, ctx: OperatorContext) -> None:
        self.branches = tuple((predicate, ctx.forward_to(child)) for predicate, child in self.named_branches)
        if self.default_child is not None:
            self.default = ctx.forward_to(self.default_child)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        for predicate, forward in self.branches:
            if predicate(key, value):
                forward(key, value, context)
                return
        if self.default is not None:
            self.default(key, value, context)


class ToStreamOperator(Operator):
    """Makes a record of each table update: its new value."""

    __slots__ = ()

    def __init__(self, operation: ToStream) -> None:
        pass

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        self.forward(key, value.new, context)


def _not_a_pair(mapper: Function, result: Any) -> TypeError:
    name = getattr(mapper, "__qualname__", repr(mapper))
    return TypeError(f"{name} must return pairs (key, value), not {result!r}")
