"""Functions that surely only read: nothing they are given can be another after they were called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.task.compiled.purity import only_reads

FIELDS = frozenset({"a", "b"})
SCALARS = frozenset({"b"})


def assigns(key: Any, pair: Any) -> Any:
    pair.a = 1
    return pair


def assigns_an_item(key: Any, pair: Any) -> Any:
    pair.a[0] = 1


def of_a_closure(seen: list[Any]) -> Callable[[Any, Any], Any]:
    return lambda key, pair: seen


READING: dict[str, Callable[..., Any]] = {
    "a field": lambda key, pair: pair.b,
    "a field of a field": lambda key, pair: pair.a.b,
    "a comparison": lambda key, pair: pair.a > 1 and pair.b != "x",
    "a comparison of arguments": lambda key, pair: key == "x" or pair.b == key,
    "a test": lambda key, pair: not pair.a,
    "a choice": lambda key, pair: pair.b if pair.a is None else pair.a.b,
    "a constant": lambda key, pair: "x",
}
OTHERS: dict[str, Any] = {
    "an assignment": assigns,
    "an assignment to an item": assigns_an_item,
    "an argument that is returned": lambda key, pair: pair,
    "a field that is returned and can be changed": lambda key, pair: pair.a,
    "an argument that may be returned": lambda key, pair: pair or key,
    "a field that may be returned": lambda key, pair: pair.a if pair.b else None,
    "a call": lambda key, pair: pair.a.append(1),
    "a call of a builtin": lambda key, pair: len(pair.a),
    "an attribute that is no field": lambda key, pair: pair.c,
    "a closure": of_a_closure([]),
    "a generator": lambda key, pair: (yield pair.a),
    "a builtin": str,
    "an object that can be called": READING.get,
}


@pytest.mark.parametrize("function", READING.values(), ids=READING)
def test_a_function_that_only_reads(function: Any) -> None:
    assert only_reads(function, FIELDS, SCALARS)


@pytest.mark.parametrize("function", OTHERS.values(), ids=OTHERS)
def test_a_function_that_may_do_more(function: Any) -> None:
    assert not only_reads(function, FIELDS, SCALARS)
