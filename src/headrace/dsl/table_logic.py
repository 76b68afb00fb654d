"""What is behind a KTable while the graph grows: its operation, its view, and whether it sends old values.

An operator that needs old values asks its table for them, and the table asks its parents in turn. Where the
answer depends on a store, the table may be made to keep one. So operations are made from this at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.topology.operations import (
    Operation,
    SessionWindowAggregate,
    SlidingWindowAggregate,
    StreamAggregate,
    StreamReduce,
    Suppress,
    TableAggregate,
    TableFilter,
    TableJoinKind,
    TableJoinMerge,
    TableMapValues,
    TablePassThrough,
    TableReduce,
    TableSource,
    TableTableJoin,
    TableTransformValues,
    WindowAggregate,
)
from headrace.topology.stores import StoreKind, StoreSpec
from headrace.topology.views import (
    FilteredView,
    JoinedView,
    MappedView,
    SessionStoreView,
    StoreView,
    SuppressedView,
    TransformedView,
    View,
    WindowStoreView,
)

if TYPE_CHECKING:
    from headrace.dsl.table import KTable

Function = Callable[..., Any]
Aggregation = (
    StreamAggregate
    | StreamReduce
    | WindowAggregate
    | SlidingWindowAggregate
    | SessionWindowAggregate
    | TableAggregate
    | TableReduce
)


class TableLogic:
    """The base: a table that can be asked for old values and for a view."""

    def __init__(self, store: StoreSpec | None) -> None:
        self.store = store
        self.send_old = False

    @property
    def store_name(self) -> str | None:
        """The name of the table's own store, if it keeps one."""
        return None if self.store is None else self.store.name

    def stores(self) -> Iterable[StoreSpec]:
        """The stores that come with the table's node."""
        return () if self.store is None else (self.store,)

    def enable_sending_old_values(self, force: bool) -> bool:
        """Makes the table send old values along; without `force` only where no new store is needed for that."""
        self.send_old = True
        return True

    def view(self) -> View:
        """How the table's current value is found."""
        raise TypeError(f"{type(self).__name__} has no view")

    def operation(self) -> Operation:
        """What the table's node does."""
        raise TypeError(f"{type(self).__name__} has no operation")


class SourceTable(TableLogic):
    """A table read from a topic or a stream; it keeps its rows only once somebody needs them."""

    def __init__(self, store: StoreSpec, *, materialized: bool) -> None:
        super().__init__(store)
        self.materialized = materialized

    def stores(self) -> Iterable[StoreSpec]:
        return super().stores() if self.materialized else ()

    def enable_sending_old_values(self, force: bool) -> bool:
        if not force and not self.materialized:
            return False
        self.materialized = True
        return super().enable_sending_old_values(force)

    def view(self) -> View:
        self.materialized = True
        assert self.store is not None
        return StoreView(self.store.name)

    def operation(self) -> Operation:
        return TableSource(self.store_name if self.materialized else None, self.send_old)


class ChildTable(TableLogic):
    """A table computed from its parent; without a store it sends old values if the parent does."""

    def __init__(self, parent: KTable, store: StoreSpec | None) -> None:
        super().__init__(store)
        self.parent = parent

    def enable_sending_old_values(self, force: bool) -> bool:
        if self.store is not None or self.parent.enable_sending_old_values(force):
            self.send_old = True
        return self.send_old

    def view(self) -> View:
        return StoreView(self.store.name) if self.store is not None else self.computed_view()

    def computed_view(self) -> View:
        """How the value is found without a store."""
        raise TypeError(f"{type(self).__name__} cannot be computed")


class FilteredTable(ChildTable):
    """The rows for which a predicate holds. It sends old values from the start where its parent can."""

    def __init__(self, parent: KTable, predicate: Function, negate: bool, store: StoreSpec | None) -> None:
        super().__init__(parent, store)
        self._predicate = predicate
        self._negate = negate
        self._versioned = False
        self.send_old = parent.enable_sending_old_values(False)

    def use_versioned_semantics(self) -> None:
        """Is told that the parent is versioned."""
        self._versioned = True

    def computed_view(self) -> View:
        return FilteredView(self.parent.view(), self._predicate, self._negate)

    def operation(self) -> Operation:
        return TableFilter(self._predicate, self._negate, self.store_name, self.send_old, self._versioned)


class MappedTable(ChildTable):
    """The rows with their values mapped."""

    def __init__(self, parent: KTable, mapper: Function, store: StoreSpec | None) -> None:
        super().__init__(parent, store)
        self._mapper = mapper

    def computed_view(self) -> View:
        return MappedView(self.parent.view(), self._mapper)

    def operation(self) -> Operation:
        return TableMapValues(self._mapper, self.store_name, self.send_old)


class TransformedTable(ChildTable):
    """The rows with their values transformed by a stateful object."""

    def __init__(self, parent: KTable, supplier: Callable[[], Any], store: StoreSpec | None) -> None:
        super().__init__(parent, store)
        self._supplier = supplier

    def computed_view(self) -> View:
        return TransformedView(self.parent.view(), self._supplier)

    def operation(self) -> Operation:
        return TableTransformValues(self._supplier, self.store_name, self.send_old, None)


class AggregatedTable(TableLogic):
    """The result of an aggregation: always kept in a store."""

    def __init__(
        self,
        operation: Aggregation,
        store: StoreSpec,
    ) -> None:
        super().__init__(store)
        self._operation = operation
        self._spec = store

    def view(self) -> View:
        if self._spec.kind is StoreKind.TIMESTAMPED_WINDOW:
            return WindowStoreView(self._spec.name)
        if self._spec.kind is StoreKind.SESSION:
            return SessionStoreView(self._spec.name)
        return StoreView(self._spec.name)

    def operation(self) -> Operation:
        return replace(self._operation, send_old=self.send_old)


class CogroupedTable(TableLogic):
    """The merge of the aggregations of a cogroup, which share one store."""

    def __init__(self, parents: list[AggregatedTable]) -> None:
        super().__init__(None)
        self._parents = parents

    def enable_sending_old_values(self, force: bool) -> bool:
        for parent in self._parents:
            parent.enable_sending_old_values(force)
        return True

    def view(self) -> View:
        return self._parents[0].view()

    def operation(self) -> Operation:
        return TablePassThrough()


class JoinSide:
    """One side of a table–table join."""

    def __init__(self, kind: TableJoinKind, own: KTable, other: KTable, joiner: Function) -> None:
        self._kind = kind
        self._own = own
        self._other = other
        self._joiner = joiner
        self.own_view = own.view()
        self.other_view = other.view()
        self._send_old = False
        self._versioned = False

    def enable_sending_old_values(self) -> None:
        """Makes both tables send old values."""
        self._own.enable_sending_old_values(True)
        self._other.enable_sending_old_values(True)
        self._send_old = True

    def use_versioned_semantics(self) -> None:
        """Is told that its own table is versioned."""
        self._versioned = True

    def view(self) -> View:
        """The join of both tables' values, from this side."""
        kind = {TableJoinKind.RIGHT: "right"}.get(self._kind, self._kind.value)
        return JoinedView(kind, self.own_view, self.other_view, self._joiner)

    def operation(self) -> Operation:
        """What the side's node does."""
        return TableTableJoin(self._kind, self.other_view, self._joiner, self._send_old, self._versioned)


class JoinedTable(TableLogic):
    """The join of two tables."""

    def __init__(self, this: JoinSide, other: JoinSide, store: StoreSpec | None) -> None:
        super().__init__(store)
        self._this = this
        self._other = other

    def enable_sending_old_values(self, force: bool) -> bool:
        self._this.enable_sending_old_values()
        self._other.enable_sending_old_values()
        return super().enable_sending_old_values(force)

    def view(self) -> View:
        return StoreView(self.store.name) if self.store is not None else self._this.view()

    def operation(self) -> Operation:
        return TableJoinMerge(self.store_name, self.send_old)


class SuppressedTable(TableLogic):
    """A table that holds updates back. Its parent always sends old values."""

    def __init__(self, parent: KTable, operation: Suppress, store: StoreSpec) -> None:
        super().__init__(store)
        self._parent = parent
        self._operation = operation
        self._store_name = store.name
        parent.enable_sending_old_values(True)

    def enable_sending_old_values(self, force: bool) -> bool:
        return self._parent.enable_sending_old_values(force)

    def view(self) -> View:
        return SuppressedView(self._parent.view(), self._store_name)

    def operation(self) -> Operation:
        return self._operation
