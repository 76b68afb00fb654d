"""The graph the DSL draws while the user writes: it is written into a topology when that is built.

A graph node stands for one or more nodes of the topology. It may still change while the graph grows, for
example when an operator further down needs old values, so the topology's nodes are made at the very end.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from headrace.dsl.options import Consumed, Partitioner
from headrace.errors import TopologyError
from headrace.topology import Topology
from headrace.topology.naming import Names
from headrace.topology.nodes import Location, ProcessorNode, SinkNode, SourceNode
from headrace.topology.operations import Filter, Operation
from headrace.topology.serde_refs import SerdeRef
from headrace.topology.stores import StoreSpec


class GraphNode:
    """A node of the graph, between its parents and its children."""

    def __init__(self, name: str, location: Location | None) -> None:
        self.name = name
        self.location = location
        self.parents: dict[GraphNode, None] = {}
        self.children: dict[GraphNode, None] = {}
        self.priority = -1
        self.written = False
        self.output_versioned: bool | None = None
        """Whether the table this node gives is versioned; None: as its parents are."""
        self.accepts_null_keys = False
        """Whether this is a join for which a record without a key can be a result."""
        self.grace_ms: int | None = None
        """How long a windowed aggregation waits after a window's end."""

    @property
    def parent_names(self) -> tuple[str, ...]:
        """The topology nodes that this one stands below."""
        return tuple(parent.name for parent in self.parents)

    def add_child(self, child: GraphNode) -> None:
        """Puts a node below this one."""
        self.children[child] = None
        child.parents[self] = None

    def remove_child(self, child: GraphNode) -> None:
        """Takes a node away from below this one."""
        del self.children[child]
        del child.parents[self]

    def use_versioned_semantics(self, parent: GraphNode) -> None:
        """Is told that the parent's table is versioned."""

    def write(self, topology: Topology) -> None:
        """Adds the topology's nodes that this one stands for."""


class SourceGraphNode(GraphNode):
    """Reads topics."""

    def __init__(
        self,
        name: str,
        topics: tuple[str, ...],
        pattern: re.Pattern[str] | None,
        consumed: Consumed,
        location: Location | None,
        *,
        key: SerdeRef = None,
        value: SerdeRef = None,
    ) -> None:
        super().__init__(name, location)
        self.topics = topics
        self.pattern = pattern
        self.consumed = consumed
        self.key = key if key is not None else consumed.key
        self.value = value if value is not None else consumed.value

    def merge(self, other: SourceGraphNode) -> None:
        """Takes over the children of another source of the same topics."""
        if self.consumed.offset_reset != other.consumed.offset_reset:
            raise TopologyError(
                f"topics {list(self.topics) or self.pattern} are read with two offset_reset settings, "
                f"{self.consumed.offset_reset!r} ({self.location}) and {other.consumed.offset_reset!r} "
                f"({other.location}): use the same one"
            )
        for child in list(other.children):
            other.remove_child(child)
            self.add_child(child)

    def source(self, name: str) -> SourceNode:
        """The topology's source under this name."""
        extractor, reset = self.consumed.timestamp_extractor, self.consumed.offset_reset
        return SourceNode(name, self.topics, self.pattern, self.key, self.value, extractor, reset, self.location)

    def write(self, topology: Topology) -> None:
        topology.add(self.source(self.name))


class ProcessorGraphNode(GraphNode):
    """One processor: its operation, the stores it brings along and the names of others it uses."""

    def __init__(
        self,
        name: str,
        operation: Callable[[], Operation],
        location: Location | None,
        *,
        stores: Callable[[], Iterable[StoreSpec]] = tuple,
        connect: Iterable[str] = (),
        on_versioned: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(name, location)
        self._operation = operation
        self._stores = stores
        self._connect = tuple(connect)
        self._on_versioned = on_versioned

    def use_versioned_semantics(self, parent: GraphNode) -> None:
        if self._on_versioned is not None:
            self._on_versioned()

    def write(self, topology: Topology) -> None:
        self.write_below(topology, self.parent_names)

    def write_below(self, topology: Topology, parents: tuple[str, ...]) -> None:
        """Adds the processor below these nodes."""
        topology.add(ProcessorNode(self.name, parents, self._operation(), (), self.location))
        for store in self._stores():
            topology.add_state_store(store, self.name)
        topology.connect(self.name, *self._connect)


class TableSourceGraphNode(SourceGraphNode):
    """Reads a topic as a table: a source and the processor that keeps its rows."""

    def __init__(
        self,
        source_name: str,
        topic: str,
        consumed: Consumed,
        processor: ProcessorGraphNode,
        *,
        is_global: StoreSpec | None,
    ) -> None:
        super().__init__(processor.name, (topic,), None, consumed, processor.location)
        self._source_name = source_name
        self._processor = processor
        self._global_store = is_global

    def write(self, topology: Topology) -> None:
        source = self.source(self._source_name)
        if self._global_store is None:
            topology.add(source)
            self._processor.write_below(topology, (self._source_name,))
        else:
            node = ProcessorNode(self.name, (self._source_name,), self._processor._operation(), (), self.location)
            topology.add_global(source, node, self._global_store)


class SinkGraphNode(GraphNode):
    """Writes to a topic."""

    def __init__(self, sink: SinkNode) -> None:
        super().__init__(sink.name, sink.location)
        self._sink = sink

    def write(self, topology: Topology) -> None:
        topology.add(replace(self._sink, parents=self.parent_names))


class RepartitionGraphNode(GraphNode):
    """Sends a stream through an internal topic: a filter, a sink and a source, under the source's name."""

    def __init__(
        self,
        topic: str,
        names: tuple[str | None, str, str],
        key: SerdeRef,
        value: SerdeRef,
        location: Location | None,
        *,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
    ) -> None:
        self._filter_name, self._sink_name, source_name = names
        super().__init__(source_name, location)
        self._topic = topic
        self._key = key
        self._value = value
        self._partitions = partitions
        self._partitioner = partitioner
        self.drop_null_keys = False

    def write(self, topology: Topology) -> None:
        topology.add_internal_topic(self._topic, self._partitions)
        parents = self.parent_names
        if self._filter_name is not None:
            predicate = _has_key if self.drop_null_keys else _any_record
            topology.add(ProcessorNode(self._filter_name, parents, Filter(predicate), (), self.location))
            parents = (self._filter_name,)
        sink = SinkNode(self._sink_name, parents, self._topic, self._key, self._value, self._partitioner, self.location)
        topology.add(sink)
        topology.add(SourceNode(self.name, (self._topic,), None, self._key, self._value, None, None, self.location))


class JoinGraphNode(GraphNode):
    """The two sides of a join and the node that brings them together, under that node's name."""

    def __init__(
        self,
        sides: tuple[ProcessorGraphNode, ProcessorGraphNode],
        side_parents: tuple[str, str],
        merge: ProcessorGraphNode,
    ) -> None:
        super().__init__(merge.name, merge.location)
        self._sides = sides
        self._side_parents = side_parents
        self._merge = merge

    def use_versioned_semantics(self, parent: GraphNode) -> None:
        for side, side_parent in zip(self._sides, self._side_parents, strict=True):
            if side_parent == parent.name:
                side.use_versioned_semantics(parent)

    def write(self, topology: Topology) -> None:
        for side, parent in zip(self._sides, self._side_parents, strict=True):
            side.write_below(topology, (parent,))
        self._merge.write_below(topology, tuple(side.name for side in self._sides))


class StoreGraphNode(GraphNode):
    """A store that the user added."""

    def __init__(self, store: StoreSpec, location: Location | None) -> None:
        super().__init__(store.name, location)
        self._store = store

    def write(self, topology: Topology) -> None:
        topology.add_state_store(self._store)


class Graph:
    """All graph nodes below a root, with the names and internal topics they share."""

    def __init__(self) -> None:
        self.root = GraphNode("root", None)
        self.names = Names()
        self._priorities = itertools.count()
        self._copartitioned: list[frozenset[str]] = []
        self._internal_topics: list[str] = []

    def add(self, child: GraphNode, *parents: GraphNode) -> None:
        """Puts a node below its parents, or below the root."""
        for parent in parents or (self.root,):
            parent.add_child(child)
            child.priority = next(self._priorities)

    def copartition(self, sources: Iterable[str]) -> None:
        """Says that these sources must have the same number of partitions."""
        self._copartitioned.append(frozenset(sources))

    def add_internal_topic(self, topic: str) -> None:
        """Makes a topic internal."""
        self._internal_topics.append(topic)

    def build(self) -> Topology:
        """Writes the graph into a topology, each node once all its parents are there."""
        self._merge_duplicate_sources()
        self._drop_null_keys_where_useless()
        self._spread_versioned_semantics()
        topology = Topology()
        for topic in self._internal_topics:
            topology.add_internal_topic(topic)
        self._write(topology)
        for sources in self._copartitioned:
            topology.copartition(sources)
        return topology.freeze()

    def _write(self, topology: Topology) -> None:
        waiting: list[tuple[int, int, GraphNode]] = [(self.root.priority, 0, self.root)]
        ticket = itertools.count(1)
        while waiting:
            _, _, node = heapq.heappop(waiting)
            if not node.written and all(parent.written for parent in node.parents):
                node.write(topology)
                node.written = True
            for child in node.children:
                heapq.heappush(waiting, (child.priority, next(ticket), child))

    def _merge_duplicate_sources(self) -> None:
        by_topic: dict[str | re.Pattern[str], SourceGraphNode] = {}
        for node in list(self.root.children):
            if type(node) is not SourceGraphNode:
                continue
            for topic in node.topics or (node.pattern,):
                assert topic is not None
                known = by_topic.setdefault(topic, node)
                if known is node:
                    continue
                if known.topics != node.topics:
                    raise TopologyError(
                        f"topic {topic!r} is read by two sources with other topics beside it, {list(known.topics)} "
                        f"({known.location}) and {list(node.topics)} ({node.location}): read the same topics in both"
                    )
                known.merge(node)
                if node in self.root.children:
                    self.root.remove_child(node)

    def _drop_null_keys_where_useless(self) -> None:
        """A repartition drops records without a key, unless a join further down can make results of them."""
        needed: dict[GraphNode, bool] = {}

        def keeps_null_keys(node: GraphNode) -> bool:
            if node not in needed:
                needed[node] = False
                below = [keeps_null_keys(child) or child.accepts_null_keys for child in node.children]
                needed[node] = any(below)
                if isinstance(node, RepartitionGraphNode):
                    node.drop_null_keys = not needed[node]
            return needed[node]

        keeps_null_keys(self.root)

    def _spread_versioned_semantics(self) -> None:
        for node in self._all_nodes():
            for parent in node.parents:
                if self.is_versioned(parent):
                    node.use_versioned_semantics(parent)

    def is_versioned(self, node: GraphNode) -> bool:
        """Whether the table that a node gives is versioned, itself or because all its parents are."""
        if node is self.root:
            return False
        if node.output_versioned is not None:
            return node.output_versioned
        return all(self.is_versioned(parent) for parent in node.parents)

    def _all_nodes(self) -> list[GraphNode]:
        seen: dict[GraphNode, None] = {}
        stack = [self.root]
        while stack:
            node = stack.pop()
            if node not in seen:
                seen[node] = None
                stack.extend(node.children)
        return list(seen)


def _has_key(key: object, value: object) -> bool:
    return key is not None


def _any_record(key: object, value: object) -> bool:
    return True
