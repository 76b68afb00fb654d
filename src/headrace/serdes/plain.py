"""Plain forms: values as what they are made of, where their serde surely gives back what it is given.

A plain form is a number, a short text, or a tuple of such: nobody can change it, so it can wait in the place of the
bytes it would become. `take` makes it of a value if, and only if, the serde would serialize the value and read an
equal one again: an int where a float is declared, a number out of range, NaN in JSON or a text that is not ASCII has
no plain form.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec.inspect import BoolType, DataclassType, FloatType, IntType, NoneType, StrType, StructType, UnionType

LONGEST_TEXT = 64
"""How long a text may be to have a plain form, so that there is a limit to its size."""

_ATTRIBUTE = "__headrace_plain__"
_OVERRIDING = ("__init__", "__new__", "__post_init__", "__getattribute__", "__setattr__")
_LIMIT = 2**63


class PlainForm(NamedTuple):
    """How values of a serde become plain and back; generated for the type."""

    take: Callable[[Any], Any]
    """The plain form of a value, None if it has none."""
    make: Callable[[Any], Any]
    """A new value of a plain form, as the serde would read it."""
    add: Callable[[Callable[[Any, Any, Any], Any], Any, Any, Any], Any]
    """`add(function, key, value, plain)`: the plain form of what `function(key, value, made)` returns, or `Rough`."""
    size: int
    """How many bytes the serde makes of a plain form at most."""


class Rough(NamedTuple):
    """What a function returned that has no plain form."""

    value: Any


class _Kind(NamedTuple):
    """A type of a field or of a whole value."""

    check: str
    """Whether `{0}` is of the type and is read as it is written."""
    size: int


_JSON_KINDS: dict[type[Any], _Kind] = {
    IntType: _Kind(f"type({{0}}) is int and -{_LIMIT} <= {{0}} < {_LIMIT}", 20),
    # A finite number less itself is 0.
    FloatType: _Kind("type({0}) is float and {0} - {0} == 0.0", 24),
    StrType: _Kind(f"type({{0}}) is str and {{0}}.isascii() and len({{0}}) <= {LONGEST_TEXT}", 6 * LONGEST_TEXT + 2),
    BoolType: _Kind("type({0}) is bool", 5),
}


def has_plain_form(serialize: Any, form: PlainForm | None) -> None:
    """Gives a serde's `serialize` a plain form."""
    if form is not None:
        setattr(serialize, _ATTRIBUTE, form)


def plain_form(serialize: Any) -> PlainForm | None:
    """The plain form of a serde's values, by its `serialize`; None if it has none."""
    form: PlainForm | None = getattr(serialize, _ATTRIBUTE, None)
    return form


# --- single values -------------------------------------------------------------------------------------------------


def whole_number(size: int) -> PlainForm:
    """Of ints in so many bytes."""
    limit = 1 << (8 * size - 1)
    return _of_single(_Kind(f"type({{0}}) is int and -{limit} <= {{0}} < {limit}", size))


def double() -> PlainForm:
    """Of floats in eight bytes."""
    return _of_single(_Kind("type({0}) is float", 8))


def text() -> PlainForm:
    """Of short ASCII texts."""
    return _of_single(_JSON_KINDS[StrType])


def _of_single(kind: _Kind) -> PlainForm:
    source = f"""
def take(value):
    return value if {kind.check.format("value")} else None

def make(plain):
    return plain

def add(function, key, value, plain):
    new = function(key, value, plain)
    return new if {kind.check.format("new")} else Rough(new)
"""
    return _generated(source, {}, kind.size)


# --- JSON ----------------------------------------------------------------------------------------------------------


def json_form(info: msgspec.inspect.Type) -> PlainForm | None:
    """Of JSON of a type: a number, a text, or a Struct or dataclass of such; None for any other."""
    single = _kind_of(info)
    if single is not None and not isinstance(info, UnionType):
        return _of_single(single)
    if isinstance(info, (StructType, DataclassType)) and _is_made_of_its_fields(info):
        kinds = {field.name: kind for field in info.fields if (kind := _kind_of(field.type)) is not None}
        if 0 < len(kinds) == len(info.fields):
            # Braces, and for each field its name in quotes, a colon and a comma.
            overhead = 2 + sum(len(msgspec.json.encode(field.encode_name)) + 2 for field in info.fields)
            return _of_fields(info.cls, kinds, overhead)
    return None


def _of_fields(of: type[Any], kinds: dict[str, _Kind], overhead: int) -> PlainForm:
    names = [f"f{number}" for number in range(len(kinds))]
    fields = ", ".join(names) + ","
    read = "; ".join(f"{name} = {{0}}.{field}" for name, field in zip(names, kinds, strict=True))
    check = " and ".join(f"({kind.check.format(name)})" for name, kind in zip(names, kinds.values(), strict=True))
    source = f"""
def take(value):
    if type(value) is of:
        {read.format("value")}
        if {check}:
            return ({fields})
    return None

def make(plain):
    {fields} = plain
    return of({fields})

def add(function, key, value, plain):
    {fields} = plain
    new = function(key, value, of({fields}))
    if type(new) is of:
        {read.format("new")}
        if {check}:
            return ({fields})
    return Rough(new)
"""
    return _generated(source, {"of": of}, overhead + sum(kind.size for kind in kinds.values()))


def _generated(source: str, names: dict[str, Any], size: int) -> PlainForm:
    namespace: dict[str, Any] = {"Rough": Rough, **names}
    exec(source, namespace)
    return PlainForm(namespace["take"], namespace["make"], namespace["add"], size)


def _kind_of(info: msgspec.inspect.Type) -> _Kind | None:
    """What to check of a value of the type; None for a type with limits, or one that is not simple."""
    if isinstance(info, UnionType):
        kinds = [kind for each in info.types if not isinstance(each, NoneType) and (kind := _kind_of(each)) is not None]
        if len(info.types) != 2 or len(kinds) != 1 or not any(isinstance(each, NoneType) for each in info.types):
            return None
        return _Kind(f"{{0}} is None or {kinds[0].check}", max(kinds[0].size, len("null")))
    known = _JSON_KINDS.get(type(info))
    is_limited = any(getattr(info, field) is not None for field in info.__struct_fields__)
    return None if known is None or is_limited else known


def _is_made_of_its_fields(info: StructType | DataclassType) -> bool:
    """Whether calling the class with the fields in order makes what the serde would read."""
    of = info.cls
    if isinstance(info, StructType):
        if info.tag is not None or info.array_like:
            return False
        own = [base for base in of.__mro__ if base is not object and base.__module__.partition(".")[0] != "msgspec"]
        overridden = _OVERRIDING
    else:
        parameters = vars(of).get("__dataclass_params__")
        if parameters is None or not parameters.init:
            return False
        own = [base for base in of.__mro__ if base is not object]
        overridden = ("__new__", "__post_init__", "__getattribute__", *(() if parameters.frozen else ("__setattr__",)))
    if any(name in vars(base) for base in own for name in overridden):
        return False
    taken = inspect.signature(of).parameters.values()
    names = [parameter.name for parameter in taken if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    fields = [field.name for field in dataclasses.fields(of)] if isinstance(info, DataclassType) else names
    return len(taken) == len(names) and names == fields == [field.name for field in info.fields]
