"""Checks the functions users give: how many arguments they take, at the time the topology is built."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from headrace.errors import ArityError, TopologyError
from headrace.topology.nodes import Location

Function = Callable[..., Any]


def check_arity(function: Function, what: str, location: Location | None, *signatures: str) -> int:
    """How many arguments to call the function with: the first of the signatures, e.g. "k, v", that it takes."""
    if not callable(function):
        raise ArityError(f"{what} needs a function of ({_either(signatures)}), not {function!r}{_at(location)}")
    arities = [len(signature.split(",")) if signature else 0 for signature in signatures]
    least, most = _accepted(function)
    for arity in arities:
        if least <= arity <= most:
            return arity
    takes = str(least) if least == most else f"at least {least}" if most == _ANY else f"{least} to {most}"
    raise ArityError(
        f"{what} needs a function of ({_either(signatures)}), but {_name(function)} takes {takes} "
        f"argument{'' if takes == '1' else 's'}{_at(location)}"
    )


def value_function(function: Function, what: str, location: Location | None) -> Function:
    """A function of `v` or of `k, v`, as one of `k, v`."""
    if check_arity(function, what, location, "v", "k, v") == 2:
        return function
    return ValueOnly(function)


def joiner_function(function: Function, what: str, location: Location | None) -> Function:
    """A joiner of `a, b` or of `k, a, b`, as one of `k, a, b`."""
    if check_arity(function, what, location, "a, b", "k, a, b") == 3:
        return function
    return WithoutKey(function)


class DropsKey:
    """The base of functions that leave the key out, their first argument, and call another one with the rest."""

    __slots__ = ("function",)

    def __init__(self, function: Function) -> None:
        self.function = function


class ValueOnly(DropsKey):
    """A function of the value alone, where one of key and value is expected."""

    __slots__ = ()

    def __call__(self, key: Any, value: Any) -> Any:
        return self.function(value)


class WithoutKey(DropsKey):
    """A joiner of two values, where one of key and two values is expected."""

    __slots__ = ()

    def __call__(self, key: Any, one: Any, other: Any) -> Any:
        return self.function(one, other)


def check_supplier(supplier: Callable[[], Any], what: str, location: Location | None) -> None:
    """Raises unless the supplier can be called without arguments and gives a new object each time."""
    if not callable(supplier):
        raise TopologyError(
            f"{what} needs a supplier, that is a class or a function without arguments, "
            f"not the object {supplier!r}{_at(location)}"
        )
    check_arity(supplier, what, location, "")
    if supplier() is supplier():
        raise TopologyError(
            f"{what}: the supplier {_name(supplier)} gives the same object twice{_at(location)}; "
            "each task needs its own, so make a new one at each call"
        )


_ANY = 1 << 30


def _accepted(function: Function) -> tuple[int, int]:
    """The least and the largest number of positional arguments that the function takes."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0, _ANY
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in positional)
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        return _ANY, _ANY
    many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return least, _ANY if many else len(positional)


def _either(signatures: tuple[str, ...]) -> str:
    return ") or (".join(signatures)


def _name(function: Function) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _at(location: Location | None) -> str:
    return f" ({location})" if location else ""
