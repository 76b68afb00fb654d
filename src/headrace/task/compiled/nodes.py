"""The nodes of a task as compiled functions, each written when it is first called."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from headrace.operators.operator import Forward, Operator, nowhere
from headrace.task.compiled.function import FunctionWriter, Written
from headrace.task.compiled.method import NotCompilable
from headrace.task.compiled.syntax import Path
from headrace.task.errors import ErrorDesk
from headrace.task.record_queue import RecordQueue
from headrace.task.wiring import CalledNodes, Run
from headrace.topology import Topology
from headrace.topology.nodes import Node, SinkNode

_DEEPEST = 6
"""How many nodes are nested in one function at most; each is a block or more, of which Python allows twenty."""

_written: WeakKeyDictionary[Topology, dict[tuple[Any, ...], Written]] = WeakKeyDictionary()
"""What was written for a topology: a task that is made again takes the code over."""


_PATIENCE = 1000
"""How many records an edge passes on as calls before it is compiled."""


def _counting(key: Any, value: Any, context: Any) -> None:
    """An edge that is not compiled yet; the names are those of its own globals."""
    called(key, value, context)  # type: ignore[name-defined]  # noqa: F821
    passed()  # type: ignore[name-defined]  # noqa: F821


def _waiting(key: Any, value: Any, context: Any) -> None:
    """An edge that is compiled when it is called; the names are those of its own globals."""
    complete()  # type: ignore[name-defined]  # noqa: F821
    function(key, value, context)  # noqa: F821


def _calling(key: Any, value: Any, context: Any) -> None:
    """An edge that cannot be compiled; the name is one of its own globals."""
    called(key, value, context)  # type: ignore[name-defined]  # noqa: F821


class CompiledNodes:
    """Passes records from node to node without a call for each: what nodes do is put into one function.

    The functions are there before the operators are set up, their code once they are called.
    """

    def __init__(self, topology: Topology, nodes: Mapping[str, Node], errors: ErrorDesk, *, at_once: bool) -> None:
        self._code = _written.setdefault(topology, {})
        self._nodes = nodes
        self._chosen = frozenset(nodes)
        self._called = CalledNodes(errors)
        self._operators: dict[str, Operator] = {}
        self._edges: dict[tuple[str, ...], FunctionType] = {}
        self._children: dict[FunctionType, tuple[str, ...]] = {}
        self._queues: dict[str, RecordQueue] = {}
        self._runs: dict[str, Run] = {}
        self._errors = errors
        self._at_once = at_once

    def add(self, node: Node, operator: Operator) -> None:
        """Adds a node; its children are there already."""
        self._operators[node.name] = operator
        self._called.add(node, operator)

    def edge(self, children: Iterable[str]) -> Forward:
        """Passes records to each of the nodes in turn."""
        targets = tuple(children)
        if not targets:
            return nowhere
        found = self._edges.get(targets)
        if found is None:
            found = self._edges[targets] = self._new_edge(targets)
            self._children[found] = targets
        return found

    def run(self, queue: RecordQueue) -> Run:
        """The function that takes the records of one of the source's queues one after the other."""
        found = self._runs.get(queue.node)
        if found is None:
            self._queues[queue.node] = queue
            try:
                written = self._write(("run", queue.node), lambda writer: _written_run(writer, queue.node))
            except NotCompilable:
                return RecordQueue.run
            found = self._runs[queue.node] = self._bound(_function(written.code), written)
        return found

    # --- for the functions that are written -------------------------------------------------------------------

    def find(self, path: Path) -> Any:
        """The object at a place."""
        root, *rest = path
        if root == "node":
            value: Any = self._operators[rest.pop(0)]
        elif root == "definition":
            value = self._nodes[rest.pop(0)]
        elif root == "edge":
            value = self.edge((rest.pop(0),))
        elif root == "queue":
            value = self._queues[rest.pop(0)]
        elif root == "errors":
            value = self._errors
        else:
            value = sys.modules[root.removeprefix("global:")]
        for step in rest:
            value = value[int(step[1:-1])] if step[0] == "[" else getattr(value, step)
        return value

    def children_of(self, edge: Any) -> tuple[str, ...] | None:
        """The nodes that a function passes records to; None if it is not an edge."""
        if edge is nowhere:
            return ()
        return self._children.get(edge) if isinstance(edge, FunctionType) else None

    def is_guarded(self, node: str) -> bool:
        """Whether errors of the node go to the handler."""
        return not isinstance(self._nodes[node], SinkNode)

    # -----------------------------------------------------------------------------------------------------------

    def _new_edge(self, children: tuple[str, ...]) -> FunctionType:
        """An edge that gets its code at the first record, or once it has passed on many."""
        function = _function(_waiting.__code__ if self._at_once else _counting.__code__)
        left = count(_PATIENCE, -1)

        def complete() -> None:
            self._complete(children, function)

        def counted() -> None:
            if next(left) == 0:
                complete()

        function.__globals__.update(
            complete=complete, function=function, passed=counted, called=self._called.edge(children)
        )
        return function

    def _complete(self, children: tuple[str, ...], function: FunctionType) -> None:
        """Gives an edge its code."""
        try:
            written = self._write(("edge", *children), lambda writer: writer.edge(", ".join(children), children))
        except NotCompilable:
            function.__code__ = _calling.__code__
        else:
            self._bound(function, written)
            function.__code__ = written.code

    def _write(self, what: tuple[str, ...], write: Callable[[FunctionWriter], Written]) -> Written:
        key = (self._chosen, what)
        found = self._code.get(key)
        if found is None or not found.fits(self):
            found = self._code[key] = _not_too_deep(self, write)
        return found

    def _bound(self, function: FunctionType, written: Written) -> FunctionType:
        function.__globals__.update({identifier: self.find(path) for identifier, path in written.names.items()})
        return function


def _written_run(writer: FunctionWriter, source: str) -> Written:
    return writer.method(source, ("queue", source), RecordQueue.run)  # type: ignore[arg-type]


def _not_too_deep(places: CompiledNodes, write: Callable[[FunctionWriter], Written]) -> Written:
    deepest = _DEEPEST
    while True:
        try:
            return write(FunctionWriter(places, deepest))
        except SyntaxError as error:
            if deepest == 1:
                raise NotCompilable(str(error)) from error
            deepest //= 2


def _function(code: CodeType) -> FunctionType:
    return FunctionType(code, {"__builtins__": builtins})
