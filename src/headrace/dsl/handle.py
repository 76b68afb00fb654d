"""What every handle of the DSL carries: where it stands in the graph, and with which serdes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.dsl.graph import Graph, GraphNode, ProcessorGraphNode
from headrace.topology.location import caller_location
from headrace.topology.operations import Operation
from headrace.topology.serde_refs import SerdeRef
from headrace.topology.stores import StoreSpec


class Handle:
    """A place in the graph: the base of streams, tables and groups."""

    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        name: str,
        key: SerdeRef,
        value: SerdeRef,
        sources: frozenset[str],
    ) -> None:
        self._graph = graph
        self._node = node
        self._name = name
        self._key = key
        self._value = value
        self._sources = sources

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name})"

    def _attach(
        self,
        name: str,
        operation: Callable[[], Operation],
        *,
        stores: Callable[[], Iterable[StoreSpec]] = tuple,
        connect: Iterable[str] = (),
        on_versioned: Callable[[], None] | None = None,
    ) -> ProcessorGraphNode:
        """Puts a processor below this place."""
        node = ProcessorGraphNode(
            name, operation, caller_location(), stores=stores, connect=connect, on_versioned=on_versioned
        )
        self._graph.add(node, self._node)
        return node

    def _copartition_with(self, *others: Handle) -> frozenset[str]:
        """Says that this and the others must be co-partitioned; gives the sources of all."""
        sources = self._sources.union(*(other._sources for other in others))
        self._graph.copartition(sources)
        return sources
