"""Edges: how a node passes records on to its children."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.operators.operator import Forward, nowhere
from headrace.record import RecordContext
from headrace.topology.nodes import Node


def children_of(nodes: Mapping[str, Node]) -> dict[str, list[str]]:
    """The children of each node, in the order in which they get its records."""
    children: dict[str, list[str]] = {name: [] for name in nodes}
    for name, node in nodes.items():
        for parent in node.parents:
            children[parent].append(name)
    return children


def forward_to_all(targets: Iterable[Forward]) -> Forward:
    """Passes records to each target in turn."""
    processes = tuple(targets)
    if not processes:
        return nowhere
    if len(processes) == 1:
        return processes[0]
    if len(processes) == 2:
        first, second = processes

        def forward_to_both(key: Any, value: Any, context: RecordContext) -> None:
            first(key, value, context)
            second(key, value, context)

        return forward_to_both

    def forward(key: Any, value: Any, context: RecordContext) -> None:
        for process in processes:
            process(key, value, context)

    return forward
