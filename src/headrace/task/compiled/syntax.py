"""Pieces of syntax trees: what is known of them before they run, and how they are put together."""

from __future__ import annotations

import ast
import copy
from typing import Any, NamedTuple

from headrace.task.compiled.method import NotCompilable

Path = tuple[str, ...]
"""Where an object is found: the name of a root, then attributes."""

_LARGEST_COPY = 40
"""How many nodes of a tree may be written twice to do without a `return`."""


class Known(NamedTuple):
    """An object that code refers to, found before the code runs."""

    value: Any
    path: Path

    def __deepcopy__(self, memo: dict[int, Any]) -> Known:
        return self


def known(value: Any, path: Path) -> ast.expr:
    """Code for an object that is known: None, booleans and numbers as such, others by a name to be bound."""
    node: Any = ast.Constant(value) if is_plain(value) else ast.Name("?", ast.Load())
    node.known = Known(value, path)
    found: ast.expr = node
    return found


def is_plain(value: Any) -> bool:
    """Whether the value itself can stand in code."""
    return value is None or type(value) in (bool, int)


def known_of(node: ast.expr) -> Known | None:
    """What the code refers to, if that is known."""
    found: Known | None = getattr(node, "known", None)
    if found is None and isinstance(node, ast.Constant):
        return Known(node.value, ())
    return found


def with_parts(call: ast.Call, parts: dict[str, ast.expr], base: ast.expr | None = None) -> ast.Call:
    """Code that makes an object, whose attributes can be had without it; others are those of `base`."""
    node: Any = call
    node.parts, node.base = parts, base
    return call


def part_of(node: ast.expr, attribute: str) -> ast.expr | None:
    """The attribute of an object that need not be made for that."""
    parts: dict[str, ast.expr] | None = getattr(node, "parts", None)
    if parts is None:
        return None
    if attribute in parts:
        return copied(parts[attribute])
    base: ast.expr | None = getattr(node, "base", None)
    return None if base is None else ast.Attribute(copied(base), attribute, ast.Load())


def parts_of(node: ast.expr) -> dict[str, ast.expr] | None:
    """The attributes of an object that need not be made to be read."""
    return getattr(node, "parts", None)


def copied(node: ast.expr) -> ast.expr:
    """The same code once more, with what is known of it."""
    if isinstance(node, ast.Name | ast.Constant):
        return copy.copy(node)
    return copy.deepcopy(node)


def is_simple(node: ast.expr) -> bool:
    """Whether the code can stand in several places: it has no effects and takes next to no time."""
    if isinstance(node, ast.Name | ast.Constant):
        return True
    if isinstance(node, ast.Subscript):
        return is_simple(node.value) and isinstance(node.slice, ast.Constant)
    if isinstance(node, ast.Compare):
        return is_simple(node.left) and all(map(is_simple, node.comparators))
    return parts_of(node) is not None


def name(identifier: str) -> ast.Name:
    """Code that reads a variable."""
    return ast.Name(identifier, ast.Load())


def assign(identifier: str, value: ast.expr) -> ast.stmt:
    """Code that assigns a variable."""
    return ast.Assign([ast.Name(identifier, ast.Store())], value)


def call(function: ast.expr, *arguments: ast.expr) -> ast.Call:
    """Code that calls a function."""
    return ast.Call(function, list(arguments), [])


def body(statements: list[ast.stmt]) -> list[ast.stmt]:
    """The statements as the body of another one, which must not be empty."""
    return statements or [ast.Pass()]


def without_returns(statements: list[ast.stmt], after: list[ast.stmt] | None = None) -> list[ast.stmt]:
    """The same statements without `return`: what would not run any more is put into the other branch."""
    result: list[ast.stmt] = []
    for index, statement in enumerate(statements):
        if isinstance(statement, ast.Return):
            if statement.value is not None:
                raise NotCompilable("a value is returned")
            return result
        if not _has_return(statement):
            result.append(statement)
            continue
        if not isinstance(statement, ast.If):
            raise NotCompilable("a return within a loop or a try")
        rest = without_returns(statements[index + 1 :], after)
        if _falls_through(statement) > 1 and sum(1 for each in rest for _ in ast.walk(each)) > _LARGEST_COPY:
            raise NotCompilable("a return that would take a copy of too much code")
        result.append(
            ast.If(
                statement.test,
                body(without_returns(statement.body, rest)),
                without_returns(statement.orelse, rest),
            )
        )
        return result
    return [*result, *(copy.deepcopy(after) if after else ())]


def _has_return(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Return) for node in ast.walk(statement))


def _falls_through(statement: ast.If) -> int:
    """In how many ways what follows the statement is reached."""
    return sum(map(_ends, (statement.body, statement.orelse)))


def _ends(statements: list[ast.stmt]) -> int:
    for statement in statements:
        if isinstance(statement, ast.Return | ast.Raise | ast.Continue | ast.Break):
            return 0
        if isinstance(statement, ast.If) and _has_return(statement):
            ends = _falls_through(statement)
            if ends == 0:
                return 0
            return ends
    return 1
