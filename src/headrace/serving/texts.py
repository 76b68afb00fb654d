"""Keys and values of stores in JSON and in addresses: strings as they are, numbers checked, JSON for the rest."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.errors import HeadraceError
from headrace.serdes import Serde

_INTEGERS = {"short": 16, "integer": 32, "long": 64}
_FLOATS = ("float", "double")
_WHOLE = re.compile(r"-?[0-9]{1,30}")
_DECIMAL = re.compile(r"-?([0-9]{1,400}(\.[0-9]{0,400})?([eE][+-]?[0-9]{1,4})?|inf)|nan")
_SHOWN = 100


class KeyTextError(HeadraceError):
    """A text is not a key of the store; the message says what would be."""


class Texts:
    """How keys or values of one serde are written in JSON, and read from a text or from JSON."""

    def __init__(self, serde: Serde[Any]) -> None:
        self._serde = serde
        self.name = serde.name
        self._is_json = serde.name == "json" or serde.name.startswith("json(")
        self._parse = _PARSERS.get(serde.name, _parse_json)

    @property
    def form(self) -> str:
        """Whether a key is given as text, such as abc, or as JSON, such as "abc"."""
        return "text" if self.name in _PARSERS else "json"

    @property
    def description(self) -> str:
        """What a text has to be."""
        return _DESCRIPTIONS.get(self.name, "JSON")

    def to_json(self, data: bytes) -> Any:
        """The content of the bytes, fit for JSON; what the serde cannot read is given as base64."""
        try:
            return self.read(data)
        except Exception:
            return base64.b64encode(data).decode()

    def read(self, data: bytes) -> Any:
        """The content of the bytes, fit for JSON."""
        if self._is_json:
            # Only checked: it is JSON already.
            _check_json(data)
            return msgspec.Raw(data)
        value = self._serde.deserialize(data)
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        if value is None or isinstance(value, (str, int, float)):
            return value
        return msgspec.Raw(to_json(value))

    def from_text(self, text: str) -> bytes:
        """The bytes of a key that is written as text."""
        try:
            return self._bytes(text.encode() if self._is_json else self._parse(text))
        except Exception as error:
            # A user's own serde may raise anything.
            raise self._refusal(text) from error

    def from_json(self, value: Any) -> bytes:
        """The bytes of a key that is given in JSON."""
        if self.form == "json":
            return self.from_text(_text(value))
        if isinstance(value, str):
            return self.from_text(value)
        if value is None or self.name == "string":
            raise self._refusal(_text(value))
        return self.from_text(_text(value))

    def _bytes(self, value: Any) -> bytes:
        # The bytes of a JSON key are those that the serde writes, whatever the spaces in the text.
        data: bytes | None = self._serde.serialize(self._serde.deserialize(value) if self._is_json else value)
        if data is None:
            raise ValueError("a key cannot be null")
        return data

    def _refusal(self, text: str) -> KeyTextError:
        shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
        return KeyTextError(f"{shown!r} is not a key of this store: {self.description} is needed")


def to_json(value: Any) -> bytes:
    """JSON of anything: what has no form in it is given as text."""
    return _encode(value)


def _other(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else str(value)


_encode = msgspec.json.Encoder(enc_hook=_other).encode
_check_json = msgspec.json.Decoder(Any).decode


def _text(value: Any) -> str:
    # The standard library's: it takes whole numbers of any length and texts of any characters.
    return json.dumps(value, ensure_ascii=False)


def _parse_integer(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not _WHOLE.fullmatch(text):
            raise ValueError
        number = int(text)
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise OverflowError
        return number

    return parse


def _parse_float(text: str) -> float:
    if not _DECIMAL.fullmatch(text):
        raise ValueError
    return float(text)


def _parse_boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


def _parse_uuid(text: str) -> Any:
    from uuid import UUID

    return UUID(text)


def _parse_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error as error:
        raise ValueError from error


def _parse_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError from error


_PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "boolean": _parse_boolean,
    "uuid": _parse_uuid,
    "bytes": _parse_base64,
    **{name: _parse_integer(bits) for name, bits in _INTEGERS.items()},
    **dict.fromkeys(_FLOATS, _parse_float),
}
_DESCRIPTIONS = {
    "string": "text",
    "boolean": "true or false",
    "uuid": "a UUID",
    "bytes": "base64",
    **{name: f"a whole number of {bits} bits" for name, bits in _INTEGERS.items()},
    **dict.fromkeys(_FLOATS, "a number"),
}
