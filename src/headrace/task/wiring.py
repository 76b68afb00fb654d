"""Edges: how a node passes records on to its children."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from headrace.operators.operator import Forward, Operator, nowhere
from headrace.record import RecordContext
from headrace.task.errors import ErrorDesk
from headrace.task.record_queue import RecordQueue
from headrace.topology.nodes import Node, SinkNode

Run = Callable[..., Iterator[int]]
"""Takes the records of one partition one after the other: `RecordQueue.run`, or what it was compiled to."""


class Wiring(Protocol):
    """Connects the nodes of a task."""

    def add(self, node: Node, operator: Operator) -> None:
        """Adds a node; its children are there already."""
        ...

    def edge(self, children: Iterable[str]) -> Forward:
        """Passes records to each of the nodes in turn."""
        ...

    def run(self, queue: RecordQueue) -> Run:
        """The function that takes the records of one of the source's queues one after the other."""
        ...


class CalledNodes:
    """Each node is a call: the plain form, which the compiled one has to agree with."""

    def __init__(self, errors: ErrorDesk, unguarded: frozenset[str] = frozenset()) -> None:
        self._errors = errors
        self._unguarded = unguarded
        self._processes: dict[str, Forward] = {}

    def add(self, node: Node, operator: Operator) -> None:
        """Adds a node; its children are there already."""
        is_guarded = not isinstance(node, SinkNode) and node.name not in self._unguarded
        self._processes[node.name] = self._errors.guard(node, operator.process) if is_guarded else operator.process

    def edge(self, children: Iterable[str]) -> Forward:
        """Passes records to each of the nodes in turn."""
        return forward_to_all(self._processes[child] for child in children)

    def run(self, queue: RecordQueue) -> Run:
        """The function that takes the records of one of the source's queues one after the other."""
        return RecordQueue.run


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

    def forward(key: Any, value: Any, context: RecordContext) -> None:
        for process in processes:
            process(key, value, context)

    return forward
