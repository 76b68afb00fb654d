"""The topology: nodes and stores, added one by one and checked as they come, then frozen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from headrace.errors import TopologyError
from headrace.topology.description import TopologyDescription, describe
from headrace.topology.functions import check_supplier
from headrace.topology.groups import NodeGroups
from headrace.topology.java_order import hash_set_order
from headrace.topology.location import caller_location
from headrace.topology.naming import check_name
from headrace.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from headrace.topology.operations import Process
from headrace.topology.serde_refs import SerdeRef
from headrace.topology.stores import StoreSpec


@dataclass(frozen=True)
class Subtopology:
    """Nodes that run together as one task for each partition."""

    id: int
    nodes: tuple[str, ...]
    is_global: bool


class Topology:
    """A processing topology. Built by `StreamsBuilder.build()`, or by hand with the `add_…` methods.

    It becomes immutable when it is built, described or given to a driver.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._stores: dict[str, StoreSpec] = {}
        self._users: dict[str, list[str]] = {}
        self._groups = NodeGroups()
        self._internal_topics: dict[str, int | None] = {}
        self._copartitioned: list[frozenset[str]] = []
        self._global_sources: set[str] = set()
        self._frozen = False

    # --- building ----------------------------------------------------------------------------------------------

    def add_source(
        self,
        name: str,
        *topics: str | re.Pattern[str],
        key: SerdeRef = None,
        value: SerdeRef = None,
        timestamp_extractor: Callable[[Any, int], int] | None = None,
        offset_reset: str | None = None,
    ) -> Topology:
        """Adds a node that reads topics, given by name or as one compiled pattern."""
        names, pattern = _topics_or_pattern(name, topics)
        node = SourceNode(name, names, pattern, key, value, timestamp_extractor, offset_reset, caller_location())
        return self.add(node)

    def add_processor(
        self, name: str, supplier: Callable[[], Any], *parents: str, stores: Iterable[str] = ()
    ) -> Topology:
        """Adds a user's processor below its parents; `stores` connects it to stores added before."""
        location = caller_location()
        check_supplier(supplier, f"add_processor {name!r}", location)
        self.add(ProcessorNode(name, parents, Process(supplier), (), location))
        return self.connect(name, *stores)

    def add_sink(
        self,
        name: str,
        topic: str | Callable[[Any, Any, Any], str],
        *parents: str,
        key: SerdeRef = None,
        value: SerdeRef = None,
        partitioner: Callable[[str, Any, Any, int], int | None] | None = None,
    ) -> Topology:
        """Adds a node that writes to a topic, or to the one that a function `(k, v, context)` chooses."""
        return self.add(SinkNode(name, parents, topic, key, value, partitioner, caller_location()))

    def add_state_store(self, store: StoreSpec, *processors: str) -> Topology:
        """Adds a store and connects it to processors."""
        self._check_open()
        known = self._stores.get(store.name)
        if known is not None and known is not store:
            raise TopologyError(
                f"two stores have the name {store.name!r}{_at(caller_location())}: a store's name must be unique"
            )
        check_name(store.name, "store name")
        self._stores[store.name] = store
        self._users.setdefault(store.name, [])
        for processor in processors:
            self.connect(processor, store.name)
        return self

    def add_global_store(
        self,
        store: StoreSpec,
        source: str,
        topic: str,
        processor: str,
        supplier: Callable[[], Any],
        *,
        key: SerdeRef = None,
        value: SerdeRef = None,
        timestamp_extractor: Callable[[Any, int], int] | None = None,
    ) -> Topology:
        """Adds a store that every instance fills from the whole topic with a processor of the user's."""
        check_supplier(supplier, f"add_global_store {processor!r}", caller_location())
        node = SourceNode(source, (topic,), None, key, value, timestamp_extractor, None, caller_location())
        return self.add_global(node, ProcessorNode(processor, (source,), Process(supplier), ()), store)

    def connect(self, processor: str, *stores: str) -> Topology:
        """Connects a processor to stores that were added before."""
        self._check_open()
        for store in stores:
            self._connect(processor, store)
        return self

    def connect_processor_and_state_stores(self, processor: str, *stores: str) -> Topology:
        """Connects a processor to stores that were added before."""
        return self.connect(processor, *stores)

    def add(self, node: Node) -> Topology:
        """Adds any node, after its parents."""
        self._check_open()
        where = _at(node.location)
        if node.name in self._nodes:
            raise TopologyError(f"two nodes have the name {node.name!r}{where}: a node's name must be unique")
        if isinstance(node, SourceNode):
            self._check_topics_free(node)
        else:
            self._check_parents(node)
        self._nodes[node.name] = node
        self._groups.add(node.name, node.parents)
        return self

    def add_global(self, source: SourceNode, processor: ProcessorNode, store: StoreSpec) -> Topology:
        """Adds the source, processor and store of a global table."""
        self.add(source)
        self._global_sources.add(source.name)
        self.add_state_store(replace(store, logging=False, is_global=True))
        self.add(replace(processor, stores=(store.name,)))
        self._users[store.name].append(processor.name)
        return self

    def add_internal_topic(self, topic: str, partitions: int | None = None) -> None:
        """Makes a topic internal: its name gets the application's prefix."""
        self._check_open()
        self._internal_topics[topic] = partitions

    def copartition(self, sources: Iterable[str]) -> None:
        """Says that the topics of these sources must have the same number of partitions."""
        self._check_open()
        self._copartitioned.append(frozenset(sources))

    def freeze(self) -> Topology:
        """Checks the whole and makes it immutable."""
        if not self._frozen:
            self._check_stores_connected()
            self.check_copartitioning({topic: n for topic, n in self._internal_topics.items() if n is not None})
            self._frozen = True
        return self

    # --- reading -----------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes by name, parents before children."""
        return MappingProxyType(self._nodes)

    @property
    def stores(self) -> Mapping[str, StoreSpec]:
        """All connected stores by name, in the order in which a task creates and flushes them."""
        names = (
            store
            for node in self._nodes.values()
            if isinstance(node, ProcessorNode)
            for store in hash_set_order(node.stores)
        )
        return {name: self._stores[name] for name in dict.fromkeys(names)}

    @property
    def internal_topics(self) -> Mapping[str, int | None]:
        """Repartition and foreign-key topics, without the application's prefix, with their partitions if given."""
        return MappingProxyType(self._internal_topics)

    @property
    def global_nodes(self) -> frozenset[str]:
        """The nodes of global tables."""
        return frozenset(name for group in self.subtopologies() if group.is_global for name in group.nodes)

    @property
    def copartitioned_topics(self) -> tuple[frozenset[str], ...]:
        """Groups of topics that must have the same number of partitions."""
        groups = (
            frozenset(topic for name in sources for topic in self._source_topics(name))
            for sources in self._copartitioned
        )
        return tuple(group for group in groups if len(group) > 1)

    def children(self, name: str) -> tuple[str, ...]:
        """The nodes below a node, in the order in which they get its records."""
        return tuple(child.name for child in self._nodes.values() for parent in child.parents if parent == name)

    def subtopologies(self) -> tuple[Subtopology, ...]:
        """The groups of connected nodes."""
        return tuple(
            Subtopology(number, tuple(names), any(name in self._global_sources for name in names))
            for number, names in self._groups.numbered().items()
        )

    def describe(self) -> TopologyDescription:
        """What the topology looks like; `str()` of it is the text that Kafka Streams prints."""
        global_ids = frozenset(group.id for group in self.subtopologies() if group.is_global)
        return describe(self._nodes, self._groups.numbered(), global_ids)

    def check_copartitioning(self, partitions: Mapping[str, int]) -> None:
        """Raises where topics that are joined or grouped together are known to differ in their partitions."""
        for topics in self.copartitioned_topics:
            known = {topic: partitions[topic] for topic in sorted(topics) if topic in partitions}
            if len(set(known.values())) > 1:
                counts = ", ".join(f"{topic} has {count}" for topic, count in known.items())
                raise TopologyError(
                    f"topics that are joined must have the same number of partitions, but {counts}"
                    f"{self._readers_of(topics)}. Repartition one of the streams with "
                    "repartition(Repartitioned(partitions=…)), or give the topics the same number of partitions"
                )

    # --- checks ------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._frozen:
            raise TopologyError("the topology is built and can no longer be changed; build another one")

    def _check_topics_free(self, node: SourceNode) -> None:
        for other in self._nodes.values():
            if not isinstance(other, SourceNode):
                continue
            clash = [topic for topic in node.topics if topic in other.topics or _matches(other.pattern, topic)]
            clash += [topic for topic in other.topics if _matches(node.pattern, topic)]
            if clash:
                raise TopologyError(
                    f"topic {clash[0]!r} is read by two sources, {other.name!r}{_at(other.location)} and {node.name!r}"
                    f"{_at(node.location)}: read it once and use the stream twice"
                )

    def _check_parents(self, node: ProcessorNode | SinkNode) -> None:
        where = _at(node.location)
        if not node.parents:
            raise TopologyError(f"node {node.name!r}{where} has no parent: name at least one")
        for parent in node.parents:
            if parent not in self._nodes:
                known = ", ".join(self._nodes) or "none so far"
                raise TopologyError(f"node {node.name!r}{where} has an unknown parent {parent!r}; known nodes: {known}")
            if isinstance(self._nodes[parent], SinkNode):
                raise TopologyError(
                    f"node {node.name!r}{where} has the sink {parent!r} as parent: a sink has no children"
                )

    def _connect(self, processor: str, store: str) -> None:
        node = self._nodes.get(processor)
        if store not in self._stores:
            known = ", ".join(self._stores) or "none so far"
            where = _at(node.location if node else caller_location())
            raise TopologyError(
                f"node {processor!r}{where} uses the store {store!r}, which was not added; "
                f"add it with add_state_store(...) first. Known stores: {known}"
            )
        if self._stores[store].is_global:
            raise TopologyError(
                f"the global store {store!r} can be used by every processor without being named; "
                f"take it out of the stores of {processor!r}"
            )
        if node is None:
            raise TopologyError(
                f"store {store!r} is to be connected to the unknown node {processor!r}; add the node first"
            )
        if not isinstance(node, ProcessorNode):
            raise TopologyError(
                f"store {store!r} cannot be connected to {processor!r}: sources and sinks have no stores"
            )
        if self._users[store]:
            self._groups.unite(self._users[store][0], processor)
        self._users[store].append(processor)
        if store not in node.stores:
            self._nodes[processor] = replace(node, stores=(*node.stores, store))

    def _check_stores_connected(self) -> None:
        for store, users in self._users.items():
            if not users:
                raise TopologyError(
                    f"store {store!r} was added, but no processor is connected to it: "
                    f"name it where it is used, e.g. process(..., stores=({store!r},)), or take it out"
                )

    def _source_topics(self, name: str) -> tuple[str, ...]:
        node = self._nodes.get(name)
        return node.topics if isinstance(node, SourceNode) else ()

    def _readers_of(self, topics: frozenset[str]) -> str:
        readers = [n for n in self._nodes.values() if isinstance(n, SourceNode) and topics & set(n.topics)]
        return " (" + ", ".join(f"{node.name!r}{_at(node.location)}" for node in readers) + ")" if readers else ""


def _topics_or_pattern(
    name: str, topics: tuple[str | re.Pattern[str], ...]
) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
    if len(topics) == 1 and isinstance(topics[0], re.Pattern):
        return (), topics[0]
    names = tuple(topic for topic in topics if isinstance(topic, str))
    if len(names) != len(topics) or not names:
        raise TopologyError(f"source {name!r} needs topic names, or one compiled pattern, not {topics!r}")
    return names, None


def _matches(pattern: re.Pattern[str] | None, topic: str) -> bool:
    return pattern is not None and pattern.fullmatch(topic) is not None


def _at(location: object | None) -> str:
    return f" ({location})" if location else ""
