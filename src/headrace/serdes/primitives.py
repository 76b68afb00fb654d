"""The serdes of single values, in the binary forms of Kafka's own serializers."""

from __future__ import annotations

import numbers
import operator
import struct
from collections.abc import Callable
from typing import NoReturn
from uuid import UUID

from headrace.errors import SerializationError
from headrace.serdes.direct import has_direct_decoder, has_direct_encoder
from headrace.serdes.utf8 import REPLACE_AS_JAVA


def wrong_type(serde: str, value: object, expected: str, advice: str) -> NoReturn:
    """Raise the error for a value of a type that the serde does not take."""
    preview = repr(value)
    if len(preview) > 60:
        preview = preview[:57] + "..."
    raise SerializationError(
        f"Serdes.{serde} cannot serialize {type(value).__name__} {preview}: it takes {expected}; {advice}"
    )


def serialize_string(value: str | None) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            # As Java's String.getBytes: what UTF-8 cannot express (a lone surrogate) becomes "?".
            return value.encode("utf-8", "replace")
    wrong_type("string()", value, "a str", "convert the value with str(), or choose the serde of its type")


def deserialize_string(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except (UnicodeDecodeError, AttributeError):
        return str(data, "utf-8", REPLACE_AS_JAVA)


def serialize_bytes(value: bytes | None) -> bytes | None:
    if type(value) is bytes or value is None:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    wrong_type("bytes()", value, "bytes", "encode the value first, or choose the serde of its type")


def deserialize_bytes(data: bytes | None) -> bytes | None:
    if type(data) is bytes or data is None:
        return data
    return bytes(data)


def serialize_boolean(value: bool | None) -> bytes | None:
    if value is True:
        return b"\x01"
    if value is False:
        return b"\x00"
    if value is None:
        return None
    wrong_type("boolean()", value, "True or False", "convert the value with bool()")


def deserialize_boolean(data: bytes | None) -> bool | None:
    if data is None:
        return None
    if len(data) != 1:
        raise SerializationError("Size of data received by BooleanDeserializer is not 1")
    if data[0] > 1:
        raise SerializationError(f"Unexpected byte received by BooleanDeserializer: {data[0]}")
    return data[0] == 1


def serialize_uuid(value: UUID | None) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, UUID):
        return str(value).encode("ascii")
    wrong_type("uuid()", value, "a uuid.UUID", "convert the value with uuid.UUID(...)")


def deserialize_uuid(data: bytes | None) -> UUID | None:
    if data is None:
        return None
    try:
        return UUID(str(data, "utf-8"))
    except ValueError as error:
        raise SerializationError(f"Error parsing data into UUID: {error}") from error


def integer_functions(
    name: str, kafka_name: str, form: str
) -> tuple[Callable[[int | None], bytes | None], Callable[[bytes | None], int | None]]:
    """The two functions of a big-endian signed integer of the given struct form."""
    layout = struct.Struct(form)
    pack, unpack, size = layout.pack, layout.unpack, layout.size
    limit = 1 << (8 * size - 1)

    def out_of_range(value: int) -> SerializationError:
        wider = "Serdes.string() or Serdes.json()" if size == 8 else "Serdes.long()"
        return SerializationError(
            f"Serdes.{name}() cannot serialize {value}: it takes {-limit} to {limit - 1}; use {wider}"
        )

    def serialize(value: int | None) -> bytes | None:
        if type(value) is int:
            try:
                return pack(value)
            except struct.error:
                raise out_of_range(value) from None
        if value is None:
            return None
        if not isinstance(value, bool):
            try:
                return serialize(operator.index(value))
            except TypeError:
                pass
        wrong_type(f"{name}()", value, "an int", "convert the value with int(), or choose the serde of its type")

    def deserialize(data: bytes | None) -> int | None:
        if data is None:
            return None
        try:
            number: int = unpack(data)[0]
        except struct.error:
            raise SerializationError(f"Size of data received by {kafka_name}Deserializer is not {size}") from None
        return number

    return has_direct_encoder(serialize, int, pack), has_direct_decoder(deserialize, deserialize)


def floating_functions(
    name: str, kafka_name: str, form: str
) -> tuple[Callable[[float | None], bytes | None], Callable[[bytes | None], float | None]]:
    """The two functions of a big-endian IEEE 754 number of the given struct form."""
    layout = struct.Struct(form)
    pack, unpack, size = layout.pack, layout.unpack, layout.size

    def serialize(value: float | None) -> bytes | None:
        if value is None:
            return None
        if type(value) is float or _is_real(value):
            try:
                return pack(value)
            except (OverflowError, struct.error):
                wider = "Serdes.string() or Serdes.json()" if size == 8 else "Serdes.double()"
                raise SerializationError(
                    f"Serdes.{name}() cannot serialize {value}: it is too large for {size} bytes; use {wider}"
                ) from None
        wrong_type(f"{name}()", value, "a float", "convert the value with float(), or choose the serde of its type")

    def deserialize(data: bytes | None) -> float | None:
        if data is None:
            return None
        try:
            number: float = unpack(data)[0]
        except struct.error:
            raise SerializationError(f"Size of data received by {kafka_name}Deserializer is not {size}") from None
        return number

    return has_direct_encoder(serialize, float, pack), has_direct_decoder(deserialize, deserialize)


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


has_direct_encoder(serialize_string, str, str.encode)
has_direct_decoder(deserialize_string, bytes.decode)
has_direct_encoder(serialize_bytes, bytes, bytes)
has_direct_decoder(deserialize_bytes, deserialize_bytes)
