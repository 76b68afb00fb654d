"""StreamsBuilder: where a topology begins."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from headrace.dsl.graph import Graph, ProcessorGraphNode, SourceGraphNode, StoreGraphNode, TableSourceGraphNode
from headrace.dsl.materialize import MaterializedOrName, StoreOptions, as_materialized, key_value_store, name_store
from headrace.dsl.options import Consumed, Materialized
from headrace.dsl.stream import KStream
from headrace.dsl.table import GlobalKTable, KTable
from headrace.dsl.table_logic import SourceTable
from headrace.errors import TopologyError
from headrace.timestamps import extractor_of
from headrace.topology import Topology
from headrace.topology.functions import check_arity
from headrace.topology.location import caller_location
from headrace.topology.naming import check_name
from headrace.topology.stores import StoreSpec
from headrace.topology.views import StoreView

_OFFSET_RESETS = (None, "earliest", "latest", "none")


class StreamsBuilder:
    """Reads topics as streams and tables; `build()` gives the topology."""

    def __init__(self) -> None:
        self._graph = Graph()
        self._topology: Topology | None = None

    def stream(self, topics: str | Iterable[str] | re.Pattern[str], consumed: Consumed | None = None) -> KStream:
        """A stream of the records of a topic, of several topics, or of all that match a compiled pattern."""
        options = _checked(consumed)
        names, pattern = _topics(topics)
        node_name = self._graph.names.given_or(options.name, "KSTREAM-SOURCE-")
        node = SourceGraphNode(node_name, names, pattern, options, caller_location())
        self._graph.add(node)
        return KStream(self._graph, node, node_name, options.key, options.value, frozenset({node_name}))

    def table(
        self, topic: str, consumed: Consumed | None = None, materialized: MaterializedOrName | None = None
    ) -> KTable:
        """A table: the latest value of each key of a topic."""
        options = _checked(consumed)
        store = self._table_store(topic, options, materialized)
        source, name = self._table_names(options)
        logic = SourceTable(key_value_store(store), materialized=store.queryable)
        processor = ProcessorGraphNode(name, logic.operation, caller_location(), stores=logic.stores)
        node = TableSourceGraphNode(source, check_name(topic, "topic"), options, processor, is_global=None)
        node.output_versioned = store.is_versioned
        self._graph.add(node)
        return KTable(self._graph, node, name, store.key, store.value, frozenset({source}), logic=logic)

    def global_table(
        self, topic: str, consumed: Consumed | None = None, materialized: MaterializedOrName | None = None
    ) -> GlobalKTable:
        """A table that every instance has whole, to be joined by any key."""
        options = _checked(consumed)
        store = self._table_store(topic, options, materialized)
        if store.is_versioned:
            raise TopologyError(f"a global table cannot be versioned ({caller_location()})")
        source, name = self._table_names(options)
        spec = replace(key_value_store(store), logging=False, is_global=True)
        logic = SourceTable(spec, materialized=True)
        processor = ProcessorGraphNode(name, logic.operation, caller_location())
        node = TableSourceGraphNode(source, check_name(topic, "topic"), options, processor, is_global=spec)
        self._graph.add(node)
        return GlobalKTable(spec, StoreView(spec.name))

    def add_state_store(self, store: StoreSpec) -> StreamsBuilder:
        """Adds a store, made with `Stores`, for the processors that name it."""
        if not isinstance(store, StoreSpec):
            raise TopologyError(f"add_state_store needs a store made with Stores, not {store!r} ({caller_location()})")
        self._graph.add(StoreGraphNode(store, caller_location()))
        return self

    def build(self) -> Topology:
        """The topology, checked and immutable."""
        if self._topology is None:
            self._topology = self._graph.build()
        return self._topology

    def _table_store(self, topic: str, consumed: Consumed, materialized: MaterializedOrName | None) -> StoreOptions:
        options = as_materialized(materialized) or Materialized()
        key = consumed.key if consumed.key is not None else options.key
        value = consumed.value if consumed.value is not None else options.value
        return name_store(replace(options, key=key, value=value), self._graph.names, f"{topic}-")

    def _table_names(self, consumed: Consumed) -> tuple[str, str]:
        names = self._graph.names
        source = names.suffixed_or(consumed.name, "-source", "KSTREAM-SOURCE-")
        return source, names.given_or(consumed.name, "KTABLE-SOURCE-")


def _checked(consumed: Consumed | None) -> Consumed:
    options = consumed or Consumed()
    if options.offset_reset not in _OFFSET_RESETS:
        raise TopologyError(
            f"offset_reset must be 'earliest', 'latest' or 'none', not {options.offset_reset!r} ({caller_location()})"
        )
    if options.timestamp_extractor is not None:
        what = "Consumed timestamp_extractor"
        check_arity(extractor_of(options.timestamp_extractor), what, caller_location(), "record, partition_time")
    return options


def _topics(topics: str | Iterable[str] | re.Pattern[str]) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
    if isinstance(topics, re.Pattern):
        return (), topics
    names = (topics,) if isinstance(topics, str) else tuple(dict.fromkeys(topics))
    if not names:
        raise TopologyError(f"stream needs at least one topic ({caller_location()})")
    return tuple(check_name(name, "topic") for name in names), None
