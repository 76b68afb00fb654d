"""Several topologies as one: each under a prefix of its own, so that many scenarios run as one application."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from headrace import Topology
from headrace.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from headrace.topology.operations import Operation
from headrace.topology.stores import StoreSpec
from headrace.topology.views import View


class Part(Protocol):
    """A topology and the prefixes of its names."""

    @property
    def topology(self) -> Topology:
        """The topology."""
        ...

    @property
    def prefix(self) -> str:
        """For nodes, stores and internal topics."""
        ...

    @property
    def topic_prefix(self) -> str:
        """For all other topics."""
        ...


def put_together(parts: Iterable[Part]) -> Topology:
    """One topology of all parts, each under its prefixes."""
    whole = Topology()
    for part in parts:
        _Addition(whole, part).add()
    return whole.freeze()


class _Addition:
    """A topology on its way into a larger one."""

    def __init__(self, whole: Topology, part: Part) -> None:
        self._whole = whole
        self._part = part.topology
        self._prefix = part.prefix
        self._topic_prefix = part.topic_prefix
        self._names = {name: part.prefix + name for name in (*self._part.nodes, *self._part.stores)}

    def add(self) -> None:
        for topic, partitions in self._part.internal_topics.items():
            self._whole.add_internal_topic(self._prefix + topic, partitions)
        global_nodes = self._part.global_nodes
        for node in self._part.nodes.values():
            if node.name not in global_nodes:
                self._add(node)
            elif isinstance(node, ProcessorNode):
                self._add_global(node)
        for sources in self._part._copartitioned:
            self._whole.copartition(self._prefix + source for source in sources)

    def _add(self, node: Node) -> None:
        renamed = self._renamed(node)
        if not isinstance(node, ProcessorNode):
            self._whole.add(renamed)
            return
        self._whole.add(replace(renamed, stores=()))
        for store in node.stores:
            if self._prefix + store not in self._whole.stores:
                self._whole.add_state_store(self._store(store))
            self._whole.connect(renamed.name, self._prefix + store)

    def _add_global(self, node: ProcessorNode) -> None:
        source = self._renamed(self._part.nodes[node.parents[0]])
        self._whole.add_global(source, self._renamed(node), self._store(node.stores[0]))

    def _store(self, name: str) -> StoreSpec:
        spec = self._part.stores[name]
        changelog = spec.changelog_topic and self._topic(spec.changelog_topic)
        return replace(spec, name=self._prefix + name, changelog_topic=changelog)

    def _topic(self, topic: str) -> str:
        return (self._prefix if topic in self._part.internal_topics else self._topic_prefix) + topic

    def _renamed(self, node: Node) -> Any:
        name = self._prefix + node.name
        if isinstance(node, SourceNode):
            pattern = node.pattern and re.compile(re.escape(self._topic_prefix) + node.pattern.pattern)
            return replace(node, name=name, topics=tuple(map(self._topic, node.topics)), pattern=pattern)
        parents = tuple(self._prefix + parent for parent in node.parents)
        if isinstance(node, SinkNode):
            topic = self._topic(node.topic) if isinstance(node.topic, str) else Chosen(node.topic, self._topic_prefix)
            return replace(node, name=name, parents=parents, topic=topic)
        return replace(node, name=name, parents=parents, operation=self._inner(node.operation))

    def _inner(self, value: Any) -> Any:
        """An operation or a view with the new names of stores and nodes."""
        if isinstance(value, str):
            return self._names.get(value, value)
        if isinstance(value, tuple):
            return tuple(map(self._inner, value))
        if not isinstance(value, Operation | View):
            return value
        changed = {field.name: self._inner(getattr(value, field.name)) for field in fields(value)}
        if "supplier" in changed:
            changed["supplier"] = Supplier(changed["supplier"], self._prefix)
        return replace(value, **changed)


@dataclass(frozen=True)
class Chosen:
    """A function that chooses a topic, with the prefix before its choice."""

    function: Callable[[Any, Any, Any], str]
    prefix: str

    def __call__(self, key: Any, value: Any, context: Any) -> str:
        return self.prefix + self.function(key, value, context)


@dataclass(frozen=True)
class Supplier:
    """Supplies a user's processor that finds its stores and children under their own names."""

    function: Callable[[], Any]
    prefix: str

    def __call__(self) -> Any:
        return PrefixedProcessor(self.function(), self.prefix)


class PrefixedProcessor:
    """A user's processor or transformer, with a context that adds the prefix."""

    def __init__(self, user: Any, prefix: str) -> None:
        self._user = user
        self._prefix = prefix

    def init(self, ctx: Any) -> None:
        context = PrefixingContext(ctx, self._prefix)
        self._user.ctx = context
        if hasattr(self._user, "init"):
            self._user.init(context)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._user, name)


class PrefixingContext:
    """A processor's context that adds the prefix to the names of stores and children."""

    def __init__(self, ctx: Any, prefix: str) -> None:
        self._ctx = ctx
        self._prefix = prefix

    def state_store(self, name: str) -> Any:
        return self._ctx.state_store(self._prefix + name)

    def forward(self, record: Any, child: str | None = None) -> None:
        self._ctx.forward(record, child and self._prefix + child)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)
