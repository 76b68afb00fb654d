"""The application's default serdes in the place of those that were left out."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from headrace.config import StreamsConfig
from headrace.errors import ConfigError
from headrace.serdes import Serde
from headrace.topology import Topology
from headrace.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from headrace.topology.operations import Operation
from headrace.topology.serde_refs import SerdeRef, resolve
from headrace.topology.stores import StoreKind, StoreSpec

_KEY_SERDES = ("foreign_key_serde", "primary_key_serde")
_VALUE_SERDES = ("value_serde",)


class DefaultSerdes:
    """Fills in the application's defaults; a serde that is still missing is an error with the user's own line."""

    def __init__(self, config: StreamsConfig) -> None:
        self._defaults: dict[str, Serde[Any] | None] = {
            "key": config.default_key_serde,
            "value": config.default_value_serde,
        }

    def of_node(self, node: SourceNode | SinkNode) -> tuple[Serde[Any], Serde[Any]]:
        """The key and the value serde of a source or a sink."""
        kind = "source" if isinstance(node, SourceNode) else "sink"
        where = f"{kind} node {node.name}{_at(node)}"
        return self._need(node.key, "key", where), self._need(node.value, "value", where)

    def of_store(self, spec: StoreSpec, user: Node) -> StoreSpec:
        """The store with all its serdes; `user` is the node it is first used by."""
        where = f"store {spec.name} of node {user.name}{_at(user)}"
        if spec.kind is StoreKind.SUBSCRIPTION:
            key = self._need(spec.key, "key", where)
            return replace(spec, key=key, value=None if spec.value is None else self._need(spec.value, "value", where))
        return replace(
            spec,
            key=self._need(spec.key, "key", where),
            value=self._need(spec.value, "value", where),
            other=self._need(spec.other, "value", where) if spec.kind is StoreKind.OUTER_JOIN else None,
        )

    def of_operation(self, operation: Operation, user: Node) -> Operation:
        """The operation with all its serdes."""
        missing: dict[str, Any] = {}
        for attribute in fields(operation):
            name = attribute.name
            role = "key" if name in _KEY_SERDES else "value" if name in _VALUE_SERDES else None
            if role is not None and not isinstance(getattr(operation, name), Serde):
                missing[name] = self._need(getattr(operation, name), role, f"node {user.name}{_at(user)}")
        return replace(operation, **missing) if missing else operation

    def find(self, serde: SerdeRef, role: str) -> Serde[Any] | None:
        """The serde, or the default; None where there is none."""
        return resolve(serde, role, self._defaults)

    def _need(self, serde: SerdeRef, role: str, where: str) -> Serde[Any]:
        found = resolve(serde, role, self._defaults)
        if found is None:
            raise ConfigError(
                f"No {role} serde for {where}. Give one there, or set default_{role}_serde in StreamsConfig."
            )
        return found


def check_serdes(topology: Topology, config: StreamsConfig) -> None:
    """Raises where a node or a store has no serde and there is no default for it."""
    serdes = DefaultSerdes(config)
    for node in topology.nodes.values():
        if not isinstance(node, ProcessorNode):
            serdes.of_node(node)
            continue
        serdes.of_operation(node.operation, node)
        for store in node.stores:
            serdes.of_store(topology.stores[store], node)


def _at(node: Node) -> str:
    return f" ({node.location})" if node.location else ""
