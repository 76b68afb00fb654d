"""Serdes: every serde that comes with Headrace."""

from __future__ import annotations

import builtins
from datetime import timedelta
from typing import Any, TypeVar, overload
from uuid import UUID

from headrace.serdes import primitives
from headrace.serdes.json_serde import check_struct_fields, json_functions, struct_fields, type_name
from headrace.serdes.plain import double, has_plain_form, text, whole_number
from headrace.serdes.serde import Serde
from headrace.serdes.windowed_serde import session_windowed_functions, time_windowed_functions
from headrace.windowed import Windowed

T = TypeVar("T")
K = TypeVar("K")


class Serdes:
    """The serdes that come with Headrace; their binary forms are Kafka's own."""

    @staticmethod
    def string() -> Serde[str]:
        """Text as UTF-8."""
        return _STRING

    @staticmethod
    def bytes() -> Serde[builtins.bytes]:
        """Bytes as they are."""
        return _BYTES

    @staticmethod
    def short() -> Serde[int]:
        """An int in 2 bytes, big endian."""
        return _SHORT

    @staticmethod
    def integer() -> Serde[int]:
        """An int in 4 bytes, big endian."""
        return _INTEGER

    @staticmethod
    def long() -> Serde[int]:
        """An int in 8 bytes, big endian."""
        return _LONG

    @staticmethod
    def float() -> Serde[builtins.float]:
        """A number in 4 bytes, IEEE 754, big endian."""
        return _FLOAT

    @staticmethod
    def double() -> Serde[builtins.float]:
        """A number in 8 bytes, IEEE 754, big endian."""
        return _DOUBLE

    @staticmethod
    def boolean() -> Serde[bool]:
        """True or False in one byte."""
        return _BOOLEAN

    @staticmethod
    def uuid() -> Serde[UUID]:
        """A UUID as its text of 36 characters."""
        return _UUID

    @overload
    @staticmethod
    def json() -> Serde[Any]: ...
    @overload
    @staticmethod
    def json(type: type[T]) -> Serde[T]: ...
    @overload
    @staticmethod
    def json(type: Any) -> Serde[Any]: ...
    @staticmethod
    def json(type: Any = None) -> Serde[Any]:
        """Compact JSON of a dataclass, a msgspec Struct, a pydantic model, or of plain values.

        Any type that msgspec reads will do, such as a TypedDict or `list[int]`.
        """
        serialize, deserialize = json_functions(type)
        return Serde.handling_none(
            f"json({type_name(type)})" if type is not None else "json",
            serialize,
            deserialize,
            rebuild=(_json_again, (type, struct_fields(type))),
        )

    @staticmethod
    def windowed(inner: Serde[K], size: timedelta) -> Serde[Windowed[K]]:
        """A key of a time window: the inner key's bytes and the window's start.

        The end is not written; reading adds `size` to the start.
        """
        serialize, deserialize = time_windowed_functions(inner, size)
        return Serde.handling_none(
            f"windowed({inner.name}, {size})", serialize, deserialize, rebuild=(Serdes.windowed, (inner, size))
        )

    @staticmethod
    def session_windowed(inner: Serde[K]) -> Serde[Windowed[K]]:
        """A key of a session window: the inner key's bytes, the window's end and its start."""
        serialize, deserialize = session_windowed_functions(inner)
        return Serde.handling_none(
            f"session_windowed({inner.name})", serialize, deserialize, rebuild=(Serdes.session_windowed, (inner,))
        )


def _json_again(of: Any, fields: dict[str, tuple[str, ...]]) -> Serde[Any]:
    check_struct_fields(of, fields)
    return Serdes.json(of)


_STRING: Serde[str] = Serde.handling_none(
    "string", primitives.serialize_string, primitives.deserialize_string, rebuild=(Serdes.string, ())
)
_BYTES: Serde[bytes] = Serde.handling_none(
    "bytes", primitives.serialize_bytes, primitives.deserialize_bytes, rebuild=(Serdes.bytes, ())
)
_SHORT: Serde[int] = Serde.handling_none(
    "short", *primitives.integer_functions("short", "Short", ">h"), rebuild=(Serdes.short, ())
)
_INTEGER: Serde[int] = Serde.handling_none(
    "integer", *primitives.integer_functions("integer", "Integer", ">i"), rebuild=(Serdes.integer, ())
)
_LONG: Serde[int] = Serde.handling_none(
    "long", *primitives.integer_functions("long", "Long", ">q"), rebuild=(Serdes.long, ())
)
_FLOAT: Serde[float] = Serde.handling_none(
    "float", *primitives.floating_functions("float", "Float", ">f"), rebuild=(Serdes.float, ())
)
_DOUBLE: Serde[float] = Serde.handling_none(
    "double", *primitives.floating_functions("double", "Double", ">d"), rebuild=(Serdes.double, ())
)
has_plain_form(_SHORT.serialize, whole_number(2))
has_plain_form(_INTEGER.serialize, whole_number(4))
has_plain_form(_LONG.serialize, whole_number(8))
has_plain_form(_DOUBLE.serialize, double())
has_plain_form(_STRING.serialize, text())
_BOOLEAN: Serde[bool] = Serde.handling_none(
    "boolean", primitives.serialize_boolean, primitives.deserialize_boolean, rebuild=(Serdes.boolean, ())
)
_UUID: Serde[UUID] = Serde.handling_none(
    "uuid", primitives.serialize_uuid, primitives.deserialize_uuid, rebuild=(Serdes.uuid, ())
)
