"""KStream: a stream of records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from headrace.dsl.branched import BranchedKStream
from headrace.dsl.graph import GraphNode, RepartitionGraphNode, SinkGraphNode
from headrace.dsl.grouped import KGroupedStream
from headrace.dsl.handle import Handle
from headrace.dsl.materialize import MaterializedOrName, as_materialized, key_value_store, name_store
from headrace.dsl.options import Grouped, Joined, Materialized, Produced, Repartitioned, StreamJoined
from headrace.dsl.repartition import repartition_node
from headrace.dsl.stream_join import join_streams
from headrace.dsl.stream_table_join import join_global_table, join_table
from headrace.dsl.table_logic import SourceTable
from headrace.errors import TopologyError
from headrace.topology.functions import check_arity, check_supplier, joiner_function, value_function
from headrace.topology.location import caller_location
from headrace.topology.naming import check_name
from headrace.topology.nodes import SinkNode
from headrace.topology.operations import (
    Filter,
    FlatMap,
    FlatMapValues,
    Foreach,
    Map,
    MapValues,
    Operation,
    PassThrough,
    Peek,
    Print,
    Process,
    SelectKey,
)
from headrace.topology.serde_refs import SerdeRef
from headrace.windows import JoinWindows

if TYPE_CHECKING:
    from headrace.dsl.table import GlobalKTable, KTable

Function = Callable[..., Any]


class KStream(Handle):
    """A stream of records: each is a fact of its own."""

    def __init__(self, *args: Any, repartition_required: bool = False) -> None:
        super().__init__(*args)
        self._repartition_required = repartition_required
        self._repartition: RepartitionGraphNode | None = None

    # --- records one by one ------------------------------------------------------------------------------------

    def filter(self, predicate: Function, name: str | None = None) -> KStream:
        """The records for which `predicate(k, v)` holds."""
        return self._filter(predicate, name, negate=False)

    def filter_not(self, predicate: Function, name: str | None = None) -> KStream:
        """The records for which `predicate(k, v)` does not hold."""
        return self._filter(predicate, name, negate=True)

    def map(self, mapper: Function, name: str | None = None) -> KStream:
        """Records with the key and value that `mapper(k, v)` gives as a pair."""
        self._check(mapper, "map", "k, v")
        return self._rekeyed(name, "KSTREAM-MAP-", Map(mapper), None)

    def map_values(self, mapper: Function, name: str | None = None) -> KStream:
        """Records with the value that `mapper(v)` or `mapper(k, v)` gives."""
        function = value_function(mapper, "map_values", caller_location())
        return self._revalued(name, "KSTREAM-MAPVALUES-", MapValues(function))

    def flat_map(self, mapper: Function, name: str | None = None) -> KStream:
        """For each record as many as `mapper(k, v)` gives, as pairs of key and value."""
        self._check(mapper, "flat_map", "k, v")
        return self._rekeyed(name, "KSTREAM-FLATMAP-", FlatMap(mapper), None)

    def flat_map_values(self, mapper: Function, name: str | None = None) -> KStream:
        """For each record as many as `mapper(v)` or `mapper(k, v)` gives values."""
        function = value_function(mapper, "flat_map_values", caller_location())
        return self._revalued(name, "KSTREAM-FLATMAPVALUES-", FlatMapValues(function))

    def select_key(self, mapper: Function, name: str | None = None) -> KStream:
        """The same values under the key that `mapper(k, v)` gives."""
        self._check(mapper, "select_key", "k, v")
        return self._rekeyed(name, "KSTREAM-KEY-SELECT-", SelectKey(mapper), self._value)

    def peek(self, action: Function, name: str | None = None) -> KStream:
        """The same records, after `action(k, v)` has seen them."""
        self._check(action, "peek", "k, v")
        node_name = self._graph.names.given_or(name, "KSTREAM-PEEK-")
        return self._like(node_name, self._attach(node_name, lambda: Peek(action)))

    def foreach(self, action: Function, name: str | None = None) -> None:
        """Calls `action(k, v)` for each record and ends the stream."""
        self._check(action, "foreach", "k, v")
        self._attach(self._graph.names.given_or(name, "KSTREAM-FOREACH-"), lambda: Foreach(action))

    def print(self, label: str | None = None, name: str | None = None) -> None:
        """Prints each record as `[label]: key, value`; the label is this stream's name unless given."""
        shown = self._name if label is None else label
        self._attach(self._graph.names.given_or(name, "KSTREAM-PRINTER-"), lambda: Print(shown))

    def process(self, supplier: Callable[[], Any], stores: Iterable[str] = (), name: str | None = None) -> KStream:
        """What a processor of the user's forwards; `supplier` is its class, `stores` the stores it uses."""
        check_supplier(supplier, "process", caller_location())
        node_name = self._process_name("KSTREAM-PROCESSOR-", name)
        node = self._attach(node_name, lambda: Process(supplier), connect=_store_names(stores))
        return KStream(self._graph, node, node_name, None, None, self._sources, repartition_required=True)

    def process_values(
        self, supplier: Callable[[], Any], stores: Iterable[str] = (), name: str | None = None
    ) -> KStream:
        """What a fixed-key processor of the user's forwards: it may change values, never keys."""
        check_supplier(supplier, "process_values", caller_location())
        node_name = self._process_name("KSTREAM-PROCESSVALUES-", name)
        node = self._attach(node_name, lambda: Process(supplier, fixed_key=True), connect=_store_names(stores))
        return self._like(node_name, node, value=None)

    # --- streams together and apart ----------------------------------------------------------------------------

    def merge(self, other: KStream, name: str | None = None) -> KStream:
        """The records of both streams."""
        if not isinstance(other, KStream):
            raise TopologyError(f"merge needs another KStream, not {other!r} ({caller_location()})")
        node_name = self._graph.names.given_or(name, "KSTREAM-MERGE-")
        node = self._attach(node_name, PassThrough)
        self._graph.add(node, other._node)
        required = self._repartition_required or other._repartition_required
        sources = self._sources | other._sources
        same = self._key is other._key, self._value is other._value
        key, value = self._key if same[0] else None, self._value if same[1] else None
        return KStream(self._graph, node, node_name, key, value, sources, repartition_required=required)

    def split(self, name: str | None = None) -> BranchedKStream:
        """Begins to split the stream into branches, whose names start with this one."""
        return BranchedKStream(self, name)

    def repartition(self, repartitioned: Repartitioned | None = None) -> KStream:
        """The same records, through an internal topic partitioned by their key."""
        options = repartitioned or Repartitioned()
        prefix = options.name if options.name is not None else self._graph.names.processor("KSTREAM-REPARTITION-")
        key, value = options.key or self._key, options.value or self._value
        node = repartition_node(
            self._graph, prefix, key, value, partitions=options.partitions, partitioner=options.partitioner
        )
        self._graph.add(node, self._node)
        return KStream(self._graph, node, node.name, key, value, frozenset({node.name}))

    def to(self, topic: str | Function, produced: Produced | None = None, name: str | None = None) -> None:
        """Writes the stream to a topic, or to the one that a function `(k, v, context)` chooses."""
        options = produced or Produced()
        if isinstance(topic, str):
            check_name(topic, "topic")
        else:
            self._check(topic, "to", "k, v, context")
        if options.partitioner is not None:
            self._check(options.partitioner, "Produced partitioner", "topic, k, v, partitions")
        node_name = self._graph.names.given_or(name or options.name, "KSTREAM-SINK-")
        key, value = options.key or self._key, options.value or self._value
        sink = SinkNode(node_name, (), topic, key, value, options.partitioner, caller_location())
        self._graph.add(SinkGraphNode(sink), self._node)

    def to_table(self, materialized: MaterializedOrName | None = None, name: str | None = None) -> KTable:
        """The stream as a table: each record is the new value of its key."""
        from headrace.dsl.table import KTable

        node_name = self._graph.names.given_or(name, "KSTREAM-TOTABLE-")
        options = as_materialized(materialized) or Materialized()
        store = name_store(options, self._graph.names, "KSTREAM-TOTABLE-").with_serdes(self._key, self._value)
        parent = self
        if self._repartition_required:
            repartition = repartition_node(self._graph, node_name, store.key, store.value)
            self._graph.add(repartition, self._node)
            parent = self._like(repartition.name, repartition, sources=frozenset({repartition.name}))
        logic = SourceTable(key_value_store(store), materialized=store.queryable)
        node = parent._attach(node_name, logic.operation, stores=logic.stores)
        node.output_versioned = store.is_versioned
        return KTable(self._graph, node, node_name, store.key, store.value, parent._sources, logic=logic)

    # --- groups ------------------------------------------------------------------------------------------------

    def group_by_key(self, grouped: Grouped | None = None) -> KGroupedStream:
        """The records grouped by their key."""
        options = grouped or Grouped()
        key, value = options.key or self._key, options.value or self._value
        args = (self._graph, self._node, self._name, key, value, self._sources)
        return KGroupedStream(*args, repartition_required=self._repartition_required, repartition_name=options.name)

    def group_by(self, mapper: Function, grouped: Grouped | None = None) -> KGroupedStream:
        """The records grouped by the key that `mapper(k, v)` gives."""
        self._check(mapper, "group_by", "k, v")
        options = grouped or Grouped()
        node_name = self._graph.names.given_or(options.name, "KSTREAM-KEY-SELECT-")
        node = self._attach(node_name, lambda: SelectKey(mapper))
        args = (self._graph, node, node_name, options.key, options.value or self._value, self._sources)
        return KGroupedStream(*args, repartition_required=True, repartition_name=options.name)

    # --- joins -------------------------------------------------------------------------------------------------

    def join(
        self,
        other: KStream | KTable | GlobalKTable,
        joiner: Function,
        windows: JoinWindows | None = None,
        joined: StreamJoined | Joined | None = None,
        key: Function | None = None,
        name: str | None = None,
    ) -> KStream:
        """The inner join with a stream (in `windows`), a table, or a global table (by `key(k, v)`)."""
        return self._join("join", other, joiner, windows, joined, key, name, left=False, outer=False)

    def left_join(
        self,
        other: KStream | KTable | GlobalKTable,
        joiner: Function,
        windows: JoinWindows | None = None,
        joined: StreamJoined | Joined | None = None,
        key: Function | None = None,
        name: str | None = None,
    ) -> KStream:
        """The left join with a stream (in `windows`), a table, or a global table (by `key(k, v)`)."""
        return self._join("left_join", other, joiner, windows, joined, key, name, left=True, outer=False)

    def outer_join(
        self,
        other: KStream,
        joiner: Function,
        windows: JoinWindows | None = None,
        joined: StreamJoined | None = None,
        name: str | None = None,
    ) -> KStream:
        """The outer join with a stream in `windows`."""
        if not isinstance(other, KStream):
            raise TopologyError(f"outer_join needs another KStream, not {other!r} ({caller_location()})")
        return self._join("outer_join", other, joiner, windows, joined, None, name, left=True, outer=True)

    def _join(
        self,
        what: str,
        other: KStream | KTable | GlobalKTable,
        joiner: Function,
        windows: JoinWindows | None,
        joined: StreamJoined | Joined | None,
        key: Function | None,
        name: str | None,
        *,
        left: bool,
        outer: bool,
    ) -> KStream:
        from headrace.dsl.table import GlobalKTable, KTable

        function = joiner_function(joiner, what, caller_location())
        where = caller_location()
        if isinstance(other, KStream):
            if windows is None or key is not None or not isinstance(joined, StreamJoined | None):
                raise TopologyError(
                    f"{what} of two streams needs windows=JoinWindows(...), joined=StreamJoined ({where})"
                )
            return join_streams(self, other, function, windows, joined or StreamJoined(), name, left=left, outer=outer)
        if windows is not None:
            raise TopologyError(f"{what} with a table takes no windows ({where})")
        if isinstance(other, GlobalKTable):
            if key is None:
                raise TopologyError(f"{what} with a global table needs key=lambda k, v: ... ({where})")
            self._check(key, f"{what} key", "k, v")
            return join_global_table(self, other, function, key, name, left=left)
        if not isinstance(other, KTable):
            raise TopologyError(f"{what} needs a KStream, KTable or GlobalKTable, not {other!r} ({where})")
        if key is not None or not isinstance(joined, Joined | None):
            raise TopologyError(f"{what} with a table takes joined=Joined(...) and no key ({where})")
        return join_table(self, other, function, joined or Joined(), name, left=left)

    # --- helpers -----------------------------------------------------------------------------------------------

    def _repartitioned(self, prefix: str, key: SerdeRef, value: SerdeRef) -> KStream:
        """This stream through a repartition topic, for a join; one serves all joins that name none of their own."""
        key = key if key is not None else self._key
        value = value if value is not None else self._value
        node = repartition_node(self._graph, prefix, key, value)
        source = node.name
        if self._repartition is None or self._name != prefix:
            self._repartition = node
            self._graph.add(node, self._node)
        return KStream(self._graph, self._repartition, source, key, value, frozenset({source}))

    def _like(self, name: str, node: GraphNode, **changes: Any) -> KStream:
        """A stream below this one with the same serdes and sources, but for the changes."""
        key, value = changes.get("key", self._key), changes.get("value", self._value)
        sources = changes.get("sources", self._sources)
        required = self._repartition_required
        return KStream(self._graph, node, name, key, value, sources, repartition_required=required)

    def _filter(self, predicate: Function, name: str | None, *, negate: bool) -> KStream:
        self._check(predicate, "filter_not" if negate else "filter", "k, v")
        node_name = self._graph.names.given_or(name, "KSTREAM-FILTER-")
        return self._like(node_name, self._attach(node_name, lambda: Filter(predicate, negate)))

    def _rekeyed(self, name: str | None, prefix: str, operation: Operation, value: SerdeRef) -> KStream:
        node_name = self._graph.names.given_or(name, prefix)
        node = self._attach(node_name, lambda: operation)
        return KStream(self._graph, node, node_name, None, value, self._sources, repartition_required=True)

    def _revalued(self, name: str | None, prefix: str, operation: Operation) -> KStream:
        node_name = self._graph.names.given_or(name, prefix)
        return self._like(node_name, self._attach(node_name, lambda: operation), value=None)

    def _process_name(self, prefix: str, name: str | None) -> str:
        """Unlike other operators, a named processor uses up no number."""
        return self._graph.names.processor(prefix) if name is None else check_name(name)

    def _check(self, function: Function, what: str, signature: str) -> None:
        check_arity(function, what, caller_location(), signature)


def _store_names(stores: Iterable[str]) -> tuple[str, ...]:
    if isinstance(stores, str):
        raise TopologyError(f"stores must be a tuple of names, e.g. ({stores!r},), not a string ({caller_location()})")
    return tuple(stores)
