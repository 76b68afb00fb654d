"""KGroupedStream: a stream grouped by key, ready to be aggregated, windowed or cogrouped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from headrace.dsl.graph import ProcessorGraphNode, RepartitionGraphNode
from headrace.dsl.handle import Handle
from headrace.dsl.materialize import (
    MaterializedOrName,
    StoreOptions,
    as_materialized,
    key_value_store,
    name_store,
)
from headrace.dsl.options import Materialized
from headrace.dsl.repartition import repartition_node
from headrace.dsl.table_logic import AggregatedTable, Aggregation
from headrace.errors import TopologyError
from headrace.serdes import Serdes
from headrace.topology.functions import check_arity
from headrace.topology.location import caller_location
from headrace.topology.operations import StreamAggregate, StreamReduce
from headrace.topology.serde_refs import SerdeRef
from headrace.topology.stores import StoreSpec
from headrace.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

if TYPE_CHECKING:
    from headrace.dsl.cogrouped import CogroupedKStream
    from headrace.dsl.table import KTable
    from headrace.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream

Function = Callable[..., Any]

AGGREGATE = "KSTREAM-AGGREGATE-"
REDUCE = "KSTREAM-REDUCE-"


def zero() -> int:
    """Where a count begins."""
    return 0


def count_one(key: Any, value: Any, total: int) -> int:
    """One more."""
    return total + 1


class KGroupedStream(Handle):
    """A stream grouped by key."""

    def __init__(self, *args: Any, repartition_required: bool, repartition_name: str | None) -> None:
        super().__init__(*args)
        self._repartition_required = repartition_required
        self._repartition_name = repartition_name
        self._repartition: RepartitionGraphNode | None = None

    def count(self, materialized: MaterializedOrName | None = None, name: str | None = None) -> KTable:
        """The number of records of each key."""
        store = self._named_store(materialized, AGGREGATE, burn_unnamed=True).with_serdes(self._key, Serdes.long())
        node_name = self._graph.names.given_or(name, AGGREGATE)
        return self._aggregated(node_name, store, StreamAggregate(store.name, zero, count_one))

    def reduce(
        self, reducer: Function, materialized: MaterializedOrName | None = None, name: str | None = None
    ) -> KTable:
        """The values of each key combined by `reducer(a, b)`."""
        check_arity(reducer, "reduce", caller_location(), "a, b")
        store = self._named_store(materialized, REDUCE).with_serdes(self._key, self._value)
        node_name = self._graph.names.given_or(name, REDUCE)
        return self._aggregated(node_name, store, StreamReduce(store.name, reducer))

    def aggregate(
        self,
        initializer: Function,
        aggregator: Function,
        materialized: MaterializedOrName | None = None,
        name: str | None = None,
    ) -> KTable:
        """The values of each key, from `initializer()` on, combined by `aggregator(k, v, agg)`."""
        check_aggregation(initializer, aggregator)
        store = self._named_store(materialized, AGGREGATE).with_serdes(self._key, None)
        node_name = self._graph.names.given_or(name, AGGREGATE)
        return self._aggregated(node_name, store, StreamAggregate(store.name, initializer, aggregator))

    @overload
    def windowed_by(self, windows: TimeWindows | UnlimitedWindows | SlidingWindows) -> TimeWindowedKStream: ...

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream: ...

    def windowed_by(
        self, windows: TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows
    ) -> TimeWindowedKStream | SessionWindowedKStream:
        """The stream grouped by key and window."""
        from headrace.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream

        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self, windows)
        if isinstance(windows, TimeWindows | UnlimitedWindows | SlidingWindows):
            return TimeWindowedKStream(self, windows)
        raise TopologyError(
            f"windowed_by needs TimeWindows, SlidingWindows, SessionWindows or UnlimitedWindows, not {windows!r} "
            f"({caller_location()})"
        )

    def cogroup(self, aggregator: Function) -> CogroupedKStream:
        """Begins a joint aggregation of several grouped streams, this one with `aggregator(k, v, agg)`."""
        from headrace.dsl.cogrouped import CogroupedKStream

        return CogroupedKStream(self._graph).cogroup(self, aggregator)

    def _named_store(
        self, materialized: MaterializedOrName | None, prefix: str, *, burn_unnamed: bool = False
    ) -> StoreOptions:
        return named_store(self, materialized, prefix, burn_unnamed=burn_unnamed)

    def _aggregated(self, name: str, store: StoreOptions, operation: Aggregation) -> KTable:
        return self._build(name, store, key_value_store(store), operation, store.key, grace_ms=None)

    def _build(
        self,
        name: str,
        store: StoreOptions,
        spec: StoreSpec,
        operation: Aggregation,
        key: SerdeRef,
        *,
        grace_ms: int | None,
    ) -> KTable:
        """The table of an aggregation, after a repartition where the key was changed."""
        from headrace.dsl.table import KTable

        parent, sources = self._node, self._sources
        if self._repartition_required:
            prefix = self._repartition_name or store.name
            repartition = repartition_node(self._graph, prefix, self._key, self._value)
            sources = frozenset({repartition.name})
            if self._repartition is None or self._repartition_name is None:
                self._repartition = repartition
            self._graph.add(self._repartition, self._node)
            parent = self._repartition
        logic = AggregatedTable(operation, spec)
        node = ProcessorGraphNode(name, logic.operation, caller_location(), stores=logic.stores)
        node.output_versioned = store.is_versioned
        node.grace_ms = grace_ms
        self._graph.add(node, parent)
        return KTable(self._graph, node, name, key, store.value, sources, logic=logic, queryable=store.queryable)


def named_store(
    handle: Handle, materialized: MaterializedOrName | None, prefix: str, *, burn_unnamed: bool = False
) -> StoreOptions:
    """The store's options with its name. Counting into an unnamed `Materialized` uses up one number more."""
    options = as_materialized(materialized)
    if options is not None and options.name is None and burn_unnamed:
        handle._graph.names.store(prefix)
    return name_store(options or Materialized(), handle._graph.names, prefix)


def check_aggregation(initializer: Function, aggregator: Function) -> None:
    """Raises where the functions of an aggregation do not take what they will be given."""
    check_arity(initializer, "aggregate initializer", caller_location(), "")
    check_arity(aggregator, "aggregate aggregator", caller_location(), "k, v, agg")
