"""KTable and GlobalKTable: the latest value of each key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from headrace.dsl.foreign_key_join import join_by_foreign_key
from headrace.dsl.graph import GraphNode, JoinGraphNode, ProcessorGraphNode
from headrace.dsl.grouped_table import KGroupedTable
from headrace.dsl.handle import Handle
from headrace.dsl.materialize import (
    MaterializedOrName,
    StoreOptions,
    as_materialized,
    key_value_store,
    name_store,
)
from headrace.dsl.options import Grouped, Materialized, TableJoined
from headrace.dsl.stream import KStream, _store_names
from headrace.dsl.suppressed import Suppressed
from headrace.dsl.table_logic import (
    FilteredTable,
    JoinedTable,
    JoinSide,
    MappedTable,
    SuppressedTable,
    TableLogic,
    TransformedTable,
)
from headrace.errors import TopologyError
from headrace.topology.functions import check_arity, check_supplier, joiner_function, value_function
from headrace.topology.location import caller_location
from headrace.topology.naming import check_name
from headrace.topology.operations import Suppress, TableJoinKind, TableRepartitionMap, ToStream
from headrace.topology.serde_refs import SerdeRef
from headrace.topology.stores import StoreKind, StoreSpec
from headrace.topology.views import View

Function = Callable[..., Any]


class KTable(Handle):
    """A table: the latest value of each key, and the stream of its updates."""

    def __init__(self, *args: Any, logic: TableLogic, queryable: bool | None = None, store: str | None = None) -> None:
        super().__init__(*args)
        self._logic = logic
        self._queryable = queryable
        self._store = store or logic.store_name
        self._sends_old_values = False

    @property
    def queryable_store_name(self) -> str | None:
        """The name of the store under which the table can be queried, if it was given one."""
        if self._queryable is None:
            materialized = getattr(self._logic, "materialized", self._logic.store is not None)
            return self._store if materialized else None
        return self._store if self._queryable else None

    # --- rows one by one ---------------------------------------------------------------------------------------

    def filter(
        self, predicate: Function, materialized: MaterializedOrName | None = None, name: str | None = None
    ) -> KTable:
        """The rows for which `predicate(k, v)` holds."""
        return self._filter(predicate, materialized, name, negate=False)

    def filter_not(
        self, predicate: Function, materialized: MaterializedOrName | None = None, name: str | None = None
    ) -> KTable:
        """The rows for which `predicate(k, v)` does not hold."""
        return self._filter(predicate, materialized, name, negate=True)

    def map_values(
        self, mapper: Function, materialized: MaterializedOrName | None = None, name: str | None = None
    ) -> KTable:
        """The rows with the value that `mapper(v)` or `mapper(k, v)` gives."""
        function = value_function(mapper, "map_values", caller_location())
        options = as_materialized(materialized)
        store = self._child_store(options, "KTABLE-MAPVALUES-")
        node_name = self._graph.names.given_or(name, "KTABLE-MAPVALUES-")
        logic = MappedTable(self, function, _spec(store, self._key, None))
        return self._child(node_name, logic, options, value=None)

    def transform_values(
        self,
        supplier: Callable[[], Any],
        materialized: MaterializedOrName | None = None,
        stores: Iterable[str] = (),
        name: str | None = None,
    ) -> KTable:
        """The rows with the value that a transformer (`init(ctx)`, `transform(k, v)`, `close()`) gives."""
        check_supplier(supplier, "transform_values", caller_location())
        options = as_materialized(materialized)
        store = self._child_store(options, None)
        node_name = self._graph.names.given_or(name, "KTABLE-TRANSFORMVALUES-")
        logic = TransformedTable(self, supplier, _spec(store, self._key, None))
        return self._child(node_name, logic, options, value=None, connect=_store_names(stores))

    def to_stream(self, key_mapper: Function | None = None, name: str | None = None) -> KStream:
        """The updates of the table as a stream, with the keys that `key_mapper(k, v)` gives if there is one."""
        node_name = self._graph.names.given_or(name, "KTABLE-TOSTREAM-")
        node = self._attach(node_name, ToStream)
        stream = KStream(self._graph, node, node_name, self._key, self._value, self._sources)
        return stream if key_mapper is None else stream.select_key(key_mapper)

    def suppress(self, suppressed: Suppressed) -> KTable:
        """The same table with its updates held back: until a time limit, or until a window closes."""
        if not isinstance(suppressed, Suppressed):
            raise TopologyError(f"suppress needs Suppressed.until_..., not {suppressed!r} ({caller_location()})")
        if self._graph.is_versioned(self._node):
            raise TopologyError(f"suppress cannot be used on a versioned table, {self._name!r} ({caller_location()})")
        names = self._graph.names
        given = None if suppressed.name is None else check_name(suppressed.name)
        node_name = given or names.processor("KTABLE-SUPPRESS-")
        limit = suppressed.time_limit_ms
        duration = find_grace(self._node) if limit is None else limit
        store_name = f"{given}-store" if given else names.store("KTABLE-SUPPRESS-")
        buffer = suppressed.buffer
        store = StoreSpec(store_name, StoreKind.SUPPRESS_BUFFER, self._key, self._value, logging=buffer.logging)
        operation = Suppress(
            store_name,
            duration,
            suppressed.until_window_close,
            buffer.records,
            buffer.bytes,
            buffer.emit_early,
            safe_to_drop_tombstones=suppressed.until_window_close,
        )
        logic = SuppressedTable(self, operation, store)
        node = self._attach(node_name, logic.operation, stores=logic.stores)
        node.output_versioned = False
        return KTable(self._graph, node, node_name, self._key, self._value, self._sources, logic=logic, queryable=False)

    # --- groups and joins --------------------------------------------------------------------------------------

    def group_by(self, mapper: Function, grouped: Grouped | None = None) -> KGroupedTable:
        """The rows grouped anew by the key of the pair that `mapper(k, v)` gives."""
        check_arity(mapper, "group_by", caller_location(), "k, v")
        options = grouped or Grouped()
        node_name = self._graph.names.given_or(options.name, "KTABLE-SELECT-")
        versioned: list[bool] = []
        node = self._attach(
            node_name,
            lambda: TableRepartitionMap(mapper, bool(versioned)),
            on_versioned=lambda: versioned.append(True),
        )
        self.enable_sending_old_values(True)
        args = (self._graph, node, node_name, options.key, options.value, self._sources)
        return KGroupedTable(*args, repartition_name=options.name)

    def join(
        self,
        other: KTable,
        joiner: Function,
        materialized: MaterializedOrName | None = None,
        foreign_key: Function | None = None,
        name: str | None = None,
        joined: TableJoined | None = None,
    ) -> KTable:
        """The inner join with a table of the same key, or by the key that `foreign_key(v)` or `(k, v)` gives."""
        return self._join("join", other, joiner, materialized, foreign_key, name, joined, left=False, right=False)

    def left_join(
        self,
        other: KTable,
        joiner: Function,
        materialized: MaterializedOrName | None = None,
        foreign_key: Function | None = None,
        name: str | None = None,
        joined: TableJoined | None = None,
    ) -> KTable:
        """The left join with a table of the same key, or by the key that `foreign_key(v)` or `(k, v)` gives."""
        return self._join("left_join", other, joiner, materialized, foreign_key, name, joined, left=True, right=False)

    def outer_join(
        self,
        other: KTable,
        joiner: Function,
        materialized: MaterializedOrName | None = None,
        name: str | None = None,
    ) -> KTable:
        """The outer join with a table of the same key."""
        return self._join("outer_join", other, joiner, materialized, None, name, None, left=True, right=True)

    def _join(
        self,
        what: str,
        other: KTable,
        joiner: Function,
        materialized: MaterializedOrName | None,
        foreign_key: Function | None,
        name: str | None,
        joined: TableJoined | None,
        *,
        left: bool,
        right: bool,
    ) -> KTable:
        if not isinstance(other, KTable):
            raise TopologyError(f"{what} needs another KTable, not {other!r} ({caller_location()})")
        function = joiner_function(joiner, what, caller_location())
        options = as_materialized(materialized)
        if foreign_key is not None:
            extractor = value_function(foreign_key, f"{what} foreign_key", caller_location())
            table_joined = joined or TableJoined(name=name)
            return join_by_foreign_key(self, other, extractor, function, options, table_joined, name, left=left)
        if joined is not None:
            raise TopologyError(f"{what} takes joined=TableJoined(...) only with foreign_key= ({caller_location()})")
        names = self._graph.names
        store = None if options is None else name_store(options, names, "KTABLE-MERGE-").with_serdes(self._key, None)
        merge_name = names.given_or(name, "KTABLE-MERGE-")
        sources = self._copartition_with(other)
        if left:
            self.enable_sending_old_values(True)
        if right:
            other.enable_sending_old_values(True)
        this_kind, other_kind = _kinds(left, right)
        sides = (
            JoinSide(this_kind, self, other, function),
            JoinSide(other_kind, other, self, lambda key, own, others: function(key, others, own)),
        )
        logic = JoinedTable(*sides, _spec(store, None, None))
        side_names = (
            names.suffixed_or(name, "-join-this", "KTABLE-JOINTHIS-"),
            names.suffixed_or(name, "-join-other", "KTABLE-JOINOTHER-"),
        )
        location = caller_location()
        nodes = tuple(
            ProcessorGraphNode(
                side_name,
                side.operation,
                location,
                connect=side.other_view.stores,
                on_versioned=side.use_versioned_semantics,
            )
            for side_name, side in zip(side_names, sides, strict=True)
        )
        merge = ProcessorGraphNode(merge_name, logic.operation, location, stores=logic.stores)
        node = JoinGraphNode((nodes[0], nodes[1]), (self._name, other._name), merge)
        node.output_versioned = store is not None and store.is_versioned
        self._graph.add(node, self._node, other._node)
        key, value = (self._key, None) if store is None else (store.key, store.value)
        return KTable(self._graph, node, merge_name, key, value, sources, logic=logic)

    # --- for other operators -----------------------------------------------------------------------------------

    def enable_sending_old_values(self, force: bool) -> bool:
        """Makes the table send old values along; without `force` only where no new store is needed for that."""
        if not self._sends_old_values:
            self._sends_old_values = self._logic.enable_sending_old_values(force)
        return self._sends_old_values

    def view(self) -> View:
        """How the table's current value is found; a table read from a topic keeps its rows from then on."""
        return self._logic.view()

    def store_specs(self) -> Iterable[StoreSpec]:
        """The table's own store, if any."""
        self.view()
        return tuple(self._logic.stores())

    def _filter(
        self, predicate: Function, materialized: MaterializedOrName | None, name: str | None, *, negate: bool
    ) -> KTable:
        check_arity(predicate, "filter_not" if negate else "filter", caller_location(), "k, v")
        options = as_materialized(materialized)
        store = self._child_store(options, "KTABLE-FILTER-")
        node_name = self._graph.names.given_or(name, "KTABLE-FILTER-")
        logic = FilteredTable(self, predicate, negate, _spec(store, self._key, self._value))
        return self._child(node_name, logic, options, value=self._value, on_versioned=logic.use_versioned_semantics)

    def _child_store(self, options: Materialized | None, prefix: str | None) -> StoreOptions | None:
        """The store of a child table. An unnamed one is not made, but uses up a number where there is a prefix."""
        if options is None:
            return None
        if options.name is None:
            if prefix is not None:
                self._graph.names.store(prefix)
            return None
        return name_store(options, self._graph.names, "")

    def _child(
        self,
        name: str,
        logic: TableLogic,
        options: Materialized | None,
        *,
        value: SerdeRef,
        connect: Iterable[str] = (),
        on_versioned: Callable[[], None] | None = None,
    ) -> KTable:
        node = self._attach(name, logic.operation, stores=logic.stores, connect=connect, on_versioned=on_versioned)
        given = options or Materialized()
        if options is not None:
            node.output_versioned = given.history_retention is not None
        args = (self._graph, node, name, given.key or self._key, given.value or value, self._sources)
        return KTable(*args, logic=logic)


class GlobalKTable:
    """A table that every instance has whole, to be joined by any key."""

    def __init__(self, store: StoreSpec, view: View) -> None:
        self._store = store
        self._view = view

    @property
    def queryable_store_name(self) -> str:
        """The name of the store under which the table can be queried."""
        return self._store.name

    def view(self) -> View:
        """How the table's current value is found."""
        return self._view


def find_grace(node: GraphNode, chain: str = "") -> int:
    """The grace of the windowed aggregations that a node comes from."""
    if node.grace_ms is not None:
        return node.grace_ms
    path = f"{node.name} -> {chain}" if chain else node.name
    if not node.parents:
        raise TopologyError(
            "Suppressed.until_window_closes can only be used on a windowed table, "
            f"but this one comes from [{path}] ({caller_location()})"
        )
    return max(find_grace(parent, path) for parent in node.parents)


def _spec(store: StoreOptions | None, key: SerdeRef, value: SerdeRef) -> StoreSpec | None:
    return None if store is None else key_value_store(store.with_serdes(key, value))


def _kinds(left: bool, right: bool) -> tuple[TableJoinKind, TableJoinKind]:
    if right:
        return TableJoinKind.OUTER, TableJoinKind.OUTER
    if left:
        return TableJoinKind.LEFT, TableJoinKind.RIGHT
    return TableJoinKind.INNER, TableJoinKind.INNER
