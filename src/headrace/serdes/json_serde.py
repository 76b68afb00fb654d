"""The JSON serde: typed with a dataclass, a msgspec Struct or a pydantic model, or plain."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import chain
from typing import Any, TypeGuard

import msgspec

from headrace.errors import ConfigError, SerializationError
from headrace.serdes.direct import Reread, can_be_reread, has_direct_decoder, has_direct_encoder
from headrace.serdes.msgspec_types import StructFields, decoder_of, json_form_of, scalar_fields_of, struct_fields_of
from headrace.serdes.plain import has_plain_form
from headrace.serdes.primitives import wrong_type

Functions = tuple[Callable[[Any], "bytes | None"], Callable[["bytes | None"], Any]]

# What msgspec, the standard library and a user's own hooks raise for a value they cannot take.
_ENCODING_ERRORS = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)
_DECODING_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)


def json_functions(of: Any) -> Functions:
    """The serialize and deserialize functions for JSON of the type, or of anything for None."""
    if _is_pydantic(of):
        return _pydantic_functions(of)
    return _msgspec_functions(of)


def struct_fields(of: Any) -> StructFields:
    """What `check_struct_fields` compares after the type has travelled to another process."""
    return {} if of is None or _is_pydantic(of) else struct_fields_of(of, f"json({type_name(of)})")


def check_struct_fields(of: Any, expected: StructFields) -> None:
    """An error if a Struct lost its fields, which happens to those that cloudpickle ships by value."""
    if struct_fields(of) != expected:
        raise ConfigError(
            f"Serdes.json({type_name(of)}): a msgspec Struct of a script or notebook lost its fields on the way "
            "to a worker; define it in a module that can be imported there, or make it a dataclass"
        )


def type_name(of: Any) -> str:
    """How the type reads in a serde's name: `Order`, `list[int]`, or nothing for plain JSON."""
    if of is None:
        return ""
    return of.__qualname__ if isinstance(of, type) and not hasattr(of, "__args__") else str(of)


def _is_pydantic(of: Any) -> TypeGuard[type[Any]]:
    # Asked of the type itself, so that pydantic stays optional and is never imported here.
    return isinstance(of, type) and hasattr(of, "model_validate_json")


def _msgspec_functions(of: Any) -> Functions:
    serde = f"json({type_name(of)})"
    encode = msgspec.json.Encoder(enc_hook=_encode_other).encode
    decode = decoder_of(Any if of is None else of, serde, _decode_other).decode
    required: type[Any] = of if _is_record_type(of) else object

    def serialize(value: Any) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, required):
            _not_of_type(serde, value, required)
        try:
            return encode(value)
        except _ENCODING_ERRORS as error:
            raise _not_serializable(serde, value, error) from error

    def deserialize(data: bytes | None) -> Any:
        if data is None:
            return None
        try:
            return decode(data)
        except _DECODING_ERRORS as error:
            raise SerializationError(f"Serdes.{serde} cannot deserialize the data: {error}") from error

    if required is not object:
        has_direct_encoder(serialize, required, encode)
        fields = frozenset(chain(*struct_fields_of(of, serde).values()))
        can_be_reread(deserialize, Reread(serialize, fields, scalar_fields_of(of, serde)))
    if of is not None:
        has_plain_form(serialize, json_form_of(of, serde))
    return serialize, has_direct_decoder(deserialize, decode)


def _pydantic_functions(model: type[Any]) -> Functions:
    serde = f"json({type_name(model)})"
    validate = model.model_validate_json
    # Aliases are what the model reads by default, so they are what must be written.
    by_alias = getattr(model, "model_config", {}).get("validate_by_alias", True)

    def serialize(value: Any) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, model):
            _not_of_type(serde, value, model)
        try:
            text: str = value.model_dump_json(by_alias=by_alias)
        except _ENCODING_ERRORS as error:
            raise _not_serializable(serde, value, error) from error
        return text.encode()

    def deserialize(data: bytes | None) -> Any:
        if data is None:
            return None
        try:
            return validate(data)
        except ValueError as error:
            raise SerializationError(f"Serdes.{serde} cannot deserialize the data: {_one_line(error)}") from error

    return serialize, deserialize


def _encode_other(value: Any) -> Any:
    if _is_pydantic(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(
        f"objects of type {type(value).__name__} have no JSON form; make it a dataclass, or convert it to a dict first"
    )


def _decode_other(of: type[Any], value: Any) -> Any:
    if _is_pydantic(of):
        return of.model_validate(value)
    raise TypeError(f"type {of.__name__} has no JSON form; make it a dataclass")


def _is_record_type(of: Any) -> bool:
    return isinstance(of, type) and (dataclasses.is_dataclass(of) or issubclass(of, msgspec.Struct))


def _not_of_type(serde: str, value: object, required: type[Any]) -> None:
    wrong_type(
        serde,
        value,
        f"instances of {required.__name__}",
        f"build a {required.__name__} first, or use Serdes.json() for plain JSON",
    )


def _not_serializable(serde: str, value: object, error: Exception) -> SerializationError:
    return SerializationError(f"Serdes.{serde} cannot serialize {type(value).__name__}: {error}")


def _one_line(error: ValueError) -> str:
    """A pydantic error as `field.path: message`, several joined by semicolons."""
    details = getattr(error, "errors", None)
    if not callable(details):
        return str(error)
    return "; ".join(
        f"{'.'.join(str(step) for step in detail['loc']) or 'value'}: {detail['msg']}" for detail in details()
    )
