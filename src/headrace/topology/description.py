"""The description of a topology: one frozen model, printed as Kafka Streams' text, as Mermaid or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.topology.java_order import TreeSet, hash_set_order
from headrace.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode


@dataclass(frozen=True)
class NodeDescription:
    """A node with its neighbours in the order they are shown."""

    name: str
    kind: str
    detail: str
    predecessors: tuple[str, ...]
    successors: tuple[str, ...]
    topics: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.kind.capitalize()}: {self.name} ({self.detail})"]
        if self.kind != "sink":
            lines.append(f"      --> {_names(self.successors)}")
        if self.kind != "source":
            lines.append(f"      <-- {_names(self.predecessors)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class SubtopologyDescription:
    """A sub-topology: the nodes in the order they are shown."""

    id: int
    nodes: tuple[NodeDescription, ...]
    is_global: bool = False

    def __str__(self) -> str:
        suffix = " for global store (will not generate tasks)" if self.is_global else ""
        body = "".join(f"    {node}\n" for node in self.nodes)
        end = "" if self.is_global else "\n"
        return f"Sub-topology: {self.id}{suffix}\n{body}{end}"


@dataclass(frozen=True)
class TopologyDescription:
    """What a topology looks like; `str()` is the text that Kafka Streams prints."""

    subtopologies: tuple[SubtopologyDescription, ...]

    def __str__(self) -> str:
        ordered = _print_order(self.subtopologies)
        return "Topologies:\n " + "".join(f"  {subtopology}" for subtopology in ordered)

    def to_mermaid(self) -> str:
        """The topology as a Mermaid flowchart."""
        return _Mermaid(self).render()

    def to_json(self) -> str:
        """The topology as a JSON document."""
        return json.dumps({"subtopologies": [_json(subtopology) for subtopology in self.subtopologies]}, indent=2)


def describe(
    nodes: Mapping[str, Node], groups: Mapping[int, list[str]], global_ids: frozenset[int]
) -> TopologyDescription:
    """Describes the nodes by group; ids in `global_ids` are groups of global stores."""
    return TopologyDescription(
        tuple(
            _describe_global(group_id, [nodes[name] for name in names])
            if group_id in global_ids
            else _describe_group(group_id, nodes, names)
            for group_id, names in groups.items()
        )
    )


class _Sized:
    """A node while it is being described: its size is the number of paths that start at it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name = node.name
        self.size = 1
        self.predecessors: TreeSet[_Sized] = TreeSet(_compare)
        self.successors: TreeSet[_Sized] = TreeSet(_compare)

    def grow(self, delta: int) -> None:
        self.size += delta
        for predecessor in self.predecessors:
            predecessor.grow(delta)


def _compare(one: _Sized, other: _Sized) -> int:
    if one is other:
        return 0
    if one.size != other.size:
        return other.size - one.size
    return -1 if one.name < other.name else 1


def _describe_group(group_id: int, nodes: Mapping[str, Node], names: list[str]) -> SubtopologyDescription:
    order = hash_set_order(hash_set_order(names))
    sized = {name: _Sized(nodes[name]) for name in order}
    for item in sized.values():
        for parent_name in item.node.parents:
            parent = sized[parent_name]
            item.predecessors.add(parent)
            parent.successors.add(item)
            parent.grow(item.size)
    ordered = sorted(sized.values(), key=lambda item: (-item.size, item.name))
    return SubtopologyDescription(
        group_id,
        tuple(
            _describe_node(item.node, [p.name for p in item.predecessors], [s.name for s in item.successors])
            for item in ordered
        ),
    )


def _describe_global(group_id: int, nodes: Iterable[Node]) -> SubtopologyDescription:
    source, processor = sorted(nodes, key=lambda node: not isinstance(node, SourceNode))
    described = (
        _describe_node(source, [], [processor.name]),
        _describe_node(processor, [source.name], []),
    )
    return SubtopologyDescription(group_id, described, is_global=True)


def _describe_node(node: Node, predecessors: list[str], successors: list[str]) -> NodeDescription:
    neighbours = tuple(predecessors), tuple(successors)
    if isinstance(node, SourceNode):
        if node.pattern is not None:
            return NodeDescription(
                node.name, "source", f"topics: {node.pattern.pattern}", *neighbours, (node.pattern.pattern,)
            )
        topics = tuple(hash_set_order(node.topics, sized=True))
        return NodeDescription(node.name, "source", f"topics: {_list(topics)}", *neighbours, topics)
    if isinstance(node, ProcessorNode):
        stores = tuple(hash_set_order(hash_set_order(node.stores), sized=True))
        return NodeDescription(node.name, "processor", f"stores: {_list(stores)}", *neighbours, stores=stores)
    assert isinstance(node, SinkNode)
    if isinstance(node.topic, str):
        return NodeDescription(node.name, "sink", f"topic: {node.topic}", *neighbours, (node.topic,))
    function = getattr(node.topic, "__qualname__", type(node.topic).__qualname__)
    return NodeDescription(node.name, "sink", f"extractor class: {function}", *neighbours)


def _print_order(subtopologies: tuple[SubtopologyDescription, ...]) -> list[SubtopologyDescription]:
    """By id, as long as there are groups of both kinds to choose from; then the rest, local ones first."""
    local = [item for item in subtopologies if not item.is_global]
    global_ = [item for item in subtopologies if item.is_global]
    ordered: list[SubtopologyDescription] = []
    while local and global_:
        ordered.append(local.pop(0) if local[0].id == len(ordered) else global_.pop(0))
    return [*ordered, *local, *global_]


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"


def _json(subtopology: SubtopologyDescription) -> dict[str, Any]:
    return {
        "id": subtopology.id,
        "global": subtopology.is_global,
        "nodes": [
            {
                "name": node.name,
                "type": node.kind,
                "topics": list(node.topics),
                "stores": list(node.stores),
                "predecessors": list(node.predecessors),
                "successors": list(node.successors),
            }
            for node in subtopology.nodes
        ],
    }


class _Mermaid:
    """Draws nodes as boxes, topics as stadiums and stores as cylinders, a subgraph for each sub-topology."""

    def __init__(self, description: TopologyDescription) -> None:
        self._description = description
        self._ids: dict[tuple[str, str], str] = {}
        self._topics: list[str] = []
        self._edges: list[str] = []

    def render(self) -> str:
        groups = [line for subtopology in self._description.subtopologies for line in self._group(subtopology)]
        return "\n".join(["flowchart TD", *self._topics, *groups, *self._edges]) + "\n"

    def _group(self, subtopology: SubtopologyDescription) -> list[str]:
        label = f"Sub-topology {subtopology.id}" + (" (global)" if subtopology.is_global else "")
        lines = [f'  subgraph S{subtopology.id}["{label}"]']
        for node in subtopology.nodes:
            lines.append(f'    {self._id("node", node.name)}["{_escape(node.name)}"]')
            for store in node.stores:
                if ("store", store) not in self._ids:
                    lines.append(f'    {self._id("store", store)}[("{_escape(store)}")]')
                self._edges.append(f"  {self._id('node', node.name)} -.- {self._id('store', store)}")
            for topic in node.topics:
                self._topic_edge(node, topic)
            for successor in node.successors:
                self._edges.append(f"  {self._id('node', node.name)} --> {self._id('node', successor)}")
        return [*lines, "  end"]

    def _topic_edge(self, node: NodeDescription, topic: str) -> None:
        if ("topic", topic) not in self._ids:
            self._topics.append(f'  {self._id("topic", topic)}(["{_escape(topic)}"])')
        ends = [self._id("topic", topic), self._id("node", node.name)]
        self._edges.append("  " + " --> ".join(ends if node.kind == "source" else reversed(ends)))

    def _id(self, kind: str, name: str) -> str:
        return self._ids.setdefault((kind, name), f"{kind[0]}{len(self._ids)}")


def _escape(label: str) -> str:
    return label.replace('"', "#quot;")
