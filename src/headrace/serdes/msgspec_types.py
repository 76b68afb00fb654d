"""What msgspec needs to know about a user's types, in a way that lets them travel to other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.inspect import (
    BoolType,
    BytesType,
    CustomType,
    DataclassType,
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
    IntType,
    NamedTupleType,
    NoneType,
    StrType,
    StructType,
    TimeDeltaType,
    TimeType,
    TypedDictType,
    UnionType,
    UUIDType,
    type_info,
)

from headrace.errors import ConfigError
from headrace.serdes.plain import PlainForm, json_form

StructFields = dict[str, tuple[str, ...]]

_CACHE = "__msgspec_cache__"
_SCALARS = (
    BoolType,
    BytesType,
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
    IntType,
    NoneType,
    StrType,
    TimeDeltaType,
    TimeType,
    UUIDType,
)


def decoder_of(of: Any, serde: str, dec_hook: Callable[[type[Any], Any], Any]) -> msgspec.json.Decoder[Any]:
    """A decoder for JSON of the type, which leaves nothing behind on the user's classes.

    msgspec keeps what it learns about a class on the class itself. cloudpickle, which ships the
    classes of a notebook or a script by value, cannot ship that.
    """
    info = _info_of(of, serde)
    if isinstance(info, CustomType) and not hasattr(of, "model_validate_json"):
        raise ConfigError(
            f"Serdes.{serde}: the type has no JSON form; make it a dataclass, a msgspec Struct or a pydantic model"
        )
    decoder = msgspec.json.Decoder(of, dec_hook=dec_hook)
    _forget_caches(info)
    return decoder


def struct_fields_of(of: Any, serde: str) -> StructFields:
    """The fields of every msgspec Struct that the type is made of."""
    info = _info_of(of, serde)
    fields = {
        node.cls.__qualname__: tuple(field.name for field in node.fields)
        for node in _nodes_in(info)
        if isinstance(node, StructType)
    }
    _forget_caches(info)
    return fields


def scalar_fields_of(of: Any, serde: str) -> frozenset[str]:
    """The names of Struct fields whose values nobody can change, in whichever of the Structs they are."""
    info = _info_of(of, serde)
    structs = [node for node in _nodes_in(info) if isinstance(node, StructType)]
    changeable = {field.name for node in structs for field in node.fields if not _is_scalar(field.type)}
    _forget_caches(info)
    return frozenset(field.name for node in structs for field in node.fields) - changeable


def json_form_of(of: Any, serde: str) -> PlainForm | None:
    """The plain form of JSON of the type, if it has one."""
    info = _info_of(of, serde)
    form = json_form(info)
    _forget_caches(info)
    return form


def _info_of(of: Any, serde: str) -> msgspec.inspect.Type:
    try:
        return type_info(of)
    except NameError as error:
        raise ConfigError(
            f"Serdes.{serde}: {error}, but an annotation of the type uses it; "
            "define the type, and what it uses, at the top of a module that can be imported"
        ) from error


def _is_scalar(info: msgspec.inspect.Type) -> bool:
    return all(map(_is_scalar, info.types)) if isinstance(info, UnionType) else isinstance(info, _SCALARS)


def _forget_caches(info: msgspec.inspect.Type) -> None:
    for node in _nodes_in(info):
        if isinstance(node, (DataclassType, NamedTupleType, TypedDictType)) and _CACHE in vars(node.cls):
            delattr(node.cls, _CACHE)


def _nodes_in(info: msgspec.inspect.Type) -> Iterator[object]:
    """Everything that a type is made of, however deep."""
    seen: set[int] = set()
    waiting: list[object] = [info]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, msgspec.Struct):
            waiting += (getattr(node, field) for field in node.__struct_fields__)
        elif isinstance(node, tuple):
            waiting += node
