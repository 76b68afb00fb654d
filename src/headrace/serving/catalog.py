"""The stores of an application that can be asked: what they are, and the topics their copies are made from."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.config import StreamsConfig
from headrace.task.defaults import DefaultSerdes
from headrace.task.stores import first_users
from headrace.topology import Topology
from headrace.topology.nodes import ProcessorNode, SourceNode
from headrace.topology.stores import StoreKind, StoreSpec

KEY_VALUE_KINDS = frozenset({StoreKind.KEY_VALUE, StoreKind.TIMESTAMPED_KEY_VALUE, StoreKind.VERSIONED})
WINDOW_KINDS = frozenset({StoreKind.WINDOW, StoreKind.TIMESTAMPED_WINDOW})
SERVED_KINDS = KEY_VALUE_KINDS | WINDOW_KINDS | {StoreKind.SESSION}


@dataclass(frozen=True)
class ServedStore:
    """A store that can be asked. Its spec has all its serdes."""

    spec: StoreSpec
    topic: str
    """The changelog, or the topic of a global table."""

    @property
    def name(self) -> str:
        """The store's name."""
        return self.spec.name

    @property
    def is_global(self) -> bool:
        """Whether every instance has the whole of it."""
        return self.spec.is_global


def served_stores(topology: Topology, config: StreamsConfig, application_id: str) -> dict[str, ServedStore]:
    """The stores that can be asked, by name: those users know the kinds of, and that a topic tells the content of."""
    serdes = DefaultSerdes(config)
    users = first_users(topology.nodes)
    found: dict[str, ServedStore] = {}
    for name, spec in topology.stores.items():
        if spec.kind not in SERVED_KINDS or name not in users:
            continue
        topic = _global_topic(topology, users[name]) if spec.is_global else _changelog(spec, application_id)
        if topic is not None:
            found[name] = ServedStore(serdes.of_store(spec, users[name]), topic)
    return found


def unserved_reason(topology: Topology, store: str) -> str | None:
    """Why a store of the topology cannot be asked; None where there is no such store."""
    spec = topology.stores.get(store)
    if spec is None:
        return None
    if spec.kind not in SERVED_KINDS:
        return f"it is internal to an operator ({spec.kind.value})"
    return "it has no changelog (logging=False), which its copies would be made from"


def _changelog(spec: StoreSpec, application_id: str) -> str | None:
    if not spec.logging:
        return None
    return spec.changelog_topic or f"{application_id}-{spec.name}-changelog"


def _global_topic(topology: Topology, user: ProcessorNode) -> str | None:
    for parent in user.parents:
        node = topology.nodes[parent]
        if isinstance(node, SourceNode) and node.topics:
            return node.topics[0]
    return None
