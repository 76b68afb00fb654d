"""The source of methods as syntax trees, and which attributes of an object stay what they are."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any

_SETTING_UP = ("__init__", "init")
"""Methods that have run before anything is compiled: what they assign is settled."""


class NotCompilable(Exception):
    """The code has a form that cannot be put into other code."""


@dataclass(frozen=True)
class Method:
    """A method, to be copied into other code."""

    tree: ast.FunctionDef
    parameters: tuple[str, ...]
    """Without `self`."""
    globals: dict[str, Any]
    module: str


@cache
def method_of(function: FunctionType) -> Method:
    """The method's source; NotCompilable where there is none or its parameters are not plain."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError) as error:
        raise NotCompilable(str(error)) from error
    if not isinstance(tree, ast.FunctionDef) or tree.decorator_list:
        raise NotCompilable(f"{function.__qualname__} is not a plain method")
    arguments = tree.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs or arguments.defaults:
        raise NotCompilable(f"{function.__qualname__} does not have plain parameters")
    first, *others = (argument.arg for argument in arguments.args)
    if first != "self":
        raise NotCompilable(f"{function.__qualname__} is not a method")
    return Method(tree, tuple(others), function.__globals__, function.__module__)


def changing_attributes(of: type[Any]) -> frozenset[str]:
    """The attributes that methods of the class assign, other than those that set an object up."""
    return _changing_attributes(of)  # type: ignore[arg-type]


@cache
def _changing_attributes(of: Any) -> frozenset[str]:
    changing: set[str] = set()
    for base in of.__mro__[:-1]:
        for name, function in vars(base).items():
            if name not in _SETTING_UP and isinstance(function, FunctionType):
                changing |= _assigned_to_self(function)
    return frozenset(changing)


def _assigned_to_self(function: FunctionType) -> set[str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError) as error:
        raise NotCompilable(str(error)) from error
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def assigned_names(tree: ast.AST) -> dict[str, int]:
    """How often each name is assigned."""
    counts: dict[str, int] = {}
    for node in ast.walk(tree):
        name = None
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            name = node.id
        elif isinstance(node, ast.ExceptHandler):
            name = node.name
        if name is not None:
            counts[name] = counts.get(name, 0) + 1
    return counts
