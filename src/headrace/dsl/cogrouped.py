"""CogroupedKStream: several grouped streams aggregated into one store."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.dsl.graph import Graph, GraphNode, ProcessorGraphNode
from headrace.dsl.grouped import KGroupedStream
from headrace.dsl.materialize import (
    MaterializedOrName,
    StoreOptions,
    as_materialized,
    key_value_store,
    name_store,
    session_store,
    window_store,
)
from headrace.dsl.options import Materialized
from headrace.dsl.repartition import repartition_node
from headrace.dsl.table_logic import AggregatedTable, Aggregation, CogroupedTable
from headrace.dsl.windowed import session_key, windowed_key
from headrace.errors import TopologyError
from headrace.topology.functions import check_arity
from headrace.topology.location import caller_location
from headrace.topology.operations import (
    SessionWindowAggregate,
    SlidingWindowAggregate,
    StreamAggregate,
    WindowAggregate,
)
from headrace.topology.serde_refs import SerdeRef
from headrace.topology.stores import StoreSpec
from headrace.windows import EmitStrategy, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

if TYPE_CHECKING:
    from headrace.dsl.table import KTable

Function = Callable[..., Any]
AnyWindows = TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows

AGGREGATE = "COGROUPKSTREAM-AGGREGATE-"
MERGE = "COGROUPKSTREAM-MERGE-"
_UPDATE = EmitStrategy.ON_WINDOW_UPDATE


class CogroupedKStream:
    """Grouped streams, each with its aggregator `(k, v, agg)`, that share one aggregate."""

    def __init__(self, graph: Graph, windows: AnyWindows | None = None) -> None:
        self._graph = graph
        self._windows = windows
        self._aggregators: dict[KGroupedStream, Function] = {}
        self._parents: dict[KGroupedStream, GraphNode] = {}

    def cogroup(self, grouped: KGroupedStream, aggregator: Function) -> CogroupedKStream:
        """Adds a grouped stream with its aggregator."""
        if not isinstance(grouped, KGroupedStream):
            raise TopologyError(f"cogroup needs a grouped stream, not {grouped!r} ({caller_location()})")
        check_arity(aggregator, "cogroup aggregator", caller_location(), "k, v, agg")
        self._aggregators[grouped] = aggregator
        return self

    def windowed_by(self, windows: AnyWindows) -> CogroupedKStream:
        """The same, by window."""
        windowed = CogroupedKStream(self._graph, windows)
        windowed._aggregators = self._aggregators
        windowed._parents = self._parents
        return windowed

    def aggregate(
        self,
        initializer: Function,
        *args: Function | MaterializedOrName | None,
        materialized: MaterializedOrName | None = None,
        merger: Function | None = None,
        name: str | None = None,
    ) -> KTable:
        """The joint aggregate from `initializer()` on; on session windows `aggregate(init, merger, materialized)`."""
        check_arity(initializer, "aggregate initializer", caller_location(), "")
        for argument in args:
            if callable(argument):
                merger = argument
            else:
                materialized = argument
        self._check_merger(merger)
        options = as_materialized(materialized) or Materialized()
        store = name_store(options, self._graph.names, AGGREGATE)
        self._repartition(store)
        spec, key = self._store(store)
        logics, nodes = [], []
        for number, (grouped, aggregator) in enumerate(self._aggregators.items()):
            logic = AggregatedTable(self._operation(store.name, initializer, aggregator, merger), spec)
            node_name = self._graph.names.suffixed_or(name, f"-cogroup-agg-{number}", AGGREGATE)
            node = ProcessorGraphNode(node_name, logic.operation, caller_location(), stores=logic.stores)
            node.output_versioned = store.is_versioned if self._windows is None else None
            node.grace_ms = _grace(self._windows)
            self._graph.add(node, self._parents[grouped])
            logics.append(logic)
            nodes.append(node)
        return self._merged(logics, nodes, store, key, name)

    def _merged(
        self,
        logics: list[AggregatedTable],
        nodes: list[ProcessorGraphNode],
        store: StoreOptions,
        key: SerdeRef,
        name: str | None,
    ) -> KTable:
        from headrace.dsl.table import KTable

        merge_name = self._graph.names.suffixed_or(name, "-cogroup-merge", MERGE)
        merged = CogroupedTable(logics)
        merge = ProcessorGraphNode(merge_name, merged.operation, caller_location())
        self._graph.add(merge, *nodes)
        sources = frozenset().union(*(parent_sources(grouped, self._parents) for grouped in self._aggregators))
        return KTable(
            self._graph,
            merge,
            merge_name,
            key,
            store.value,
            sources,
            logic=merged,
            queryable=store.queryable,
            store=store.name,
        )

    def _repartition(self, store: StoreOptions) -> None:
        for grouped in self._aggregators:
            if not grouped._repartition_required:
                self._parents[grouped] = grouped._node
                continue
            prefix = grouped._repartition_name or store.name
            node = repartition_node(self._graph, prefix, grouped._key, grouped._value)
            if grouped not in self._parents:
                self._graph.add(node, grouped._node)
                self._parents[grouped] = node
        self._graph.copartition(source for g in self._parents for source in parent_sources(g, self._parents))

    def _store(self, store: StoreOptions) -> tuple[StoreSpec, SerdeRef]:
        windows = self._windows
        first = next(iter(self._aggregators))
        store = store.with_serdes(first._key, None)
        if windows is None:
            return key_value_store(store), store.key
        if isinstance(windows, SessionWindows):
            return session_store(store, windows, _UPDATE), session_key(store.key)
        return window_store(store, windows, _UPDATE), windowed_key(store.key, windows)

    def _operation(
        self, store: str, initializer: Function, aggregator: Function, merger: Function | None
    ) -> Aggregation:
        windows = self._windows
        if windows is None:
            return StreamAggregate(store, initializer, aggregator)
        if isinstance(windows, SessionWindows):
            assert merger is not None
            return SessionWindowAggregate(store, windows, initializer, aggregator, merger, _UPDATE)
        if isinstance(windows, SlidingWindows):
            return SlidingWindowAggregate(store, windows, initializer, aggregator, _UPDATE)
        return WindowAggregate(store, windows, initializer, aggregator, _UPDATE)

    def _check_merger(self, merger: Function | None) -> None:
        if isinstance(self._windows, SessionWindows):
            if merger is None:
                raise TopologyError(f"aggregate on session windows needs a merger (k, a, b) ({caller_location()})")
            check_arity(merger, "aggregate merger", caller_location(), "k, a, b")
        elif merger is not None:
            raise TopologyError(f"aggregate takes a merger only on session windows ({caller_location()})")


def parent_sources(grouped: KGroupedStream, parents: dict[KGroupedStream, GraphNode]) -> frozenset[str]:
    """The sources that a grouped stream is read from, after its repartition."""
    return frozenset({parents[grouped].name}) if grouped._repartition_required else grouped._sources


def _grace(windows: AnyWindows | None) -> int | None:
    if windows is None:
        return None
    return windows.grace_ms + windows.gap_ms if isinstance(windows, SessionWindows) else windows.grace_ms
