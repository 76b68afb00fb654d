"""One generated function: the code of the nodes it runs through, and the objects that the code refers to."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, Protocol

from headrace.errors import ProcessingFailed
from headrace.operators.operator import Operator
from headrace.serdes.direct import DIRECT
from headrace.task.compiled.method import NotCompilable, method_of
from headrace.task.compiled.read_value import ReadValue
from headrace.task.compiled.scope import Scope
from headrace.task.compiled.syntax import (
    Known,
    Path,
    body,
    call,
    copied,
    is_plain,
    known,
    known_of,
    name,
)
from headrace.task.record_queue import RecordQueue

Shape = tuple[Any, ...]
"""What decides how code with an object in it is written."""


class Places(Protocol):
    """The task that functions are written for."""

    def find(self, path: Path) -> Any:
        """The object at a place."""
        ...

    def children_of(self, edge: Any) -> tuple[str, ...] | None:
        """The nodes that a function passes records to; None if it is not an edge."""
        ...

    def edge(self, children: tuple[str, ...]) -> Any:
        """The function that passes records to the nodes."""
        ...

    def is_guarded(self, node: str) -> bool:
        """Whether errors of the node go to the handler."""
        ...


@dataclass(frozen=True)
class Written:
    """A function as code, to be used by every task of the same shape."""

    code: CodeType
    names: Mapping[str, Path]
    """Where the objects are found that the code has names for."""
    shapes: Mapping[Path, Shape]
    """What the code relies on."""
    same: tuple[tuple[Path, Path], ...] = ()
    """Places that have to have the same object."""

    def fits(self, places: Places) -> bool:
        """Whether the code is right for this task too."""
        find = places.find
        try:
            return all(shape_of(find(path)) == shape for path, shape in self.shapes.items()) and all(
                find(one) is find(other) for one, other in self.same
            )
        except AttributeError:
            return False


def shape_of(value: Any) -> Shape:
    """The value itself where it can stand in code, else its kind."""
    if is_plain(value):
        return (type(value), value)
    return (type(value), len(value) if type(value) is tuple else None, hasattr(value, DIRECT))


class FunctionWriter:
    """Writes one function."""

    def __init__(self, places: Places, deepest: int) -> None:
        self._places = places
        self._deepest = deepest
        """How many nodes may be nested: Python limits how deep blocks can be."""
        self._depth = 0
        self._count = 0
        self._nodes: set[str] = set()
        self._queue: RecordQueue | None = None
        self._shapes: dict[Path, Shape] = {}
        self._same: list[tuple[Path, Path]] = []
        self._read: ReadValue | None = None
        """The value as its queue has read it, until something may have changed it."""

    # --- the ways in -------------------------------------------------------------------------------------------

    def edge(self, title: str, children: tuple[str, ...]) -> Written:
        """A function of key, value and context that passes a record to the nodes."""
        context: Any = name("context")
        context.is_context = True
        return self._finish(
            title, ("key", "value", "context"), self._all_of(children, [name("key"), name("value"), context])
        )

    def method(self, title: str, this: Path, function: FunctionType) -> Written:
        """A method of an object at a place, with its edges put in; `self` may be any object of the same shape."""
        method = method_of(function)
        found = Known(self._places.find(this), this)
        self._queue = found.value if isinstance(found.value, RecordQueue) else None
        self._shapes[this] = shape_of(found.value)
        scope = Scope(self, found, name("self"), method)
        return self._finish(title, ("self", *method.parameters), scope.code(map(name, method.parameters)))

    def _finish(self, title: str, parameters: tuple[str, ...], statements: list[ast.stmt]) -> Written:
        function = ast.FunctionDef(
            "function",
            ast.arguments([], [ast.arg(parameter) for parameter in parameters], None, [], [], None, []),
            body(statements),
            [],
        )
        names: dict[Path, str] = {}
        for node in ast.walk(function):
            known_name = known_of(node) if isinstance(node, ast.Name) else None
            if known_name is not None and isinstance(node, ast.Name):
                path = known_name.path
                node.id = names.setdefault(path, f"K{len(names)}_{_readable(path[-1])}")
        source = ast.unparse(ast.fix_missing_locations(ast.Module([function], [])))
        code = compile(source, f"<headrace {title}>", "exec")
        # Tracebacks show the lines.
        linecache.cache[code.co_filename] = (len(source), None, source.splitlines(keepends=True), code.co_filename)
        inner = next(constant for constant in code.co_consts if isinstance(constant, CodeType))
        found = {identifier: path for path, identifier in names.items()}
        return Written(inner, found, self._shapes, tuple(self._same))

    # --- what scopes ask for -----------------------------------------------------------------------------------

    def known(self, value: Any, path: Path) -> ast.expr:
        """Code for an object that is found at a place."""
        self._shapes[path] = shape_of(value)
        return known(value, path)

    def unused(self, stem: str) -> str:
        """A name that nothing else in the function has."""
        self._count += 1
        return f"{stem}_{self._count}"

    def is_edge(self, function: Any) -> bool:
        """Whether the function passes records to other nodes."""
        return self._places.children_of(function) is not None

    def passed_on(self, edge: Any, arguments: list[ast.expr]) -> list[ast.stmt]:
        """The code of the nodes that an edge passes records to."""
        children = self._places.children_of(edge)
        assert children is not None
        if self._depth == 0 and self._queue is not None:
            self._read = ReadValue.of(self._queue, arguments)
        return self._all_of(children, arguments)

    def raw_form(self, function: Known, argument: ast.expr, owner: Any) -> ast.expr | None:
        """The bytes that an argument of a serde's function was read from, if they can be passed on instead."""
        if self._read is None or not getattr(owner, "is_internal", False):
            return None
        raw = self._read.raw_form(function, argument)
        if raw is not None:
            self._same.append((function.path, self._read.serialize))
        return raw

    def is_given(self, function: ast.expr, arguments: list[ast.expr]) -> None:
        """Is told what functions are called with: one that may change the value as it was read ends its passing on."""
        if self._read is not None and not self._read.stays(known_of(function), arguments):
            self._read = None

    # --- nodes -------------------------------------------------------------------------------------------------

    def _all_of(self, children: tuple[str, ...], arguments: list[ast.expr]) -> list[ast.stmt]:
        return [statement for child in children for statement in self._node(child, arguments)]

    def _node(self, node: str, arguments: list[ast.expr]) -> list[ast.stmt]:
        if node in self._nodes or self._depth == self._deepest:
            return [self._called(self._places.edge((node,)), ("edge", node), arguments)]
        self._nodes.add(node)
        self._depth += 1
        written = set(self._nodes)
        path = ("node", node)
        operator: Operator = self._places.find(path)
        try:
            method = method_of(type(operator).process)
            scope = Scope(self, Known(operator, path), self.known(operator, path), method)
            statements = scope.code(map(copied, arguments))
        except NotCompilable:
            self._nodes = written
            statements = [self._called(operator.process, (*path, "process"), arguments)]
        self._depth -= 1
        return [self._guarded(node, statements, arguments)] if self._places.is_guarded(node) else statements

    def _called(self, function: Any, path: Path, arguments: list[ast.expr]) -> ast.stmt:
        self.is_given(known(function, path), arguments)
        return ast.Expr(call(self.known(function, path), *map(copied, arguments)))

    def _guarded(self, node: str, statements: list[ast.stmt], arguments: list[ast.expr]) -> ast.stmt:
        """The statements with the handler around them. Errors of nodes below that were handled pass through."""
        passed = self.known(ProcessingFailed, (f"global:{ProcessingFailed.__module__}", ProcessingFailed.__name__))
        error = self.unused("error")
        definition = self.known(self._places.find(("definition", node)), ("definition", node))
        failed = self.known(self._places.find(("errors", "failed")), ("errors", "failed"))
        handled = ast.Expr(call(failed, definition, *map(copied, arguments), name(error)))
        handlers = [
            ast.ExceptHandler(passed, None, [ast.Raise()]),
            ast.ExceptHandler(name("Exception"), error, [handled]),
        ]
        return ast.Try(body(statements), handlers, [], [])


def _readable(last: str) -> str:
    return "".join(character if character.isalnum() else "_" for character in last)
