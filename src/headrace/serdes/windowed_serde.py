"""The serdes of windowed keys: the key's bytes followed by the window's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from headrace.duration import to_millis
from headrace.errors import SerializationError
from headrace.serdes.forms.session_key import pack_session_key, unpack_session_key
from headrace.serdes.forms.window_key import pack_windowed_key, unpack_windowed_key, window_end
from headrace.serdes.primitives import wrong_type
from headrace.serdes.serde import Serde
from headrace.windowed import Window, Windowed

Functions = tuple[Callable[[Any], "bytes | None"], Callable[["bytes | None"], Any]]


def time_windowed_functions(inner: Serde[Any], size: timedelta) -> Functions:
    """The functions for keys of windows of one size: key bytes, start."""
    inner_serialize = inner.serialize
    inner_deserialize = inner.deserialize
    size_ms = to_millis(size, "Serdes.windowed: size", minimum=1)

    def serialize(value: Windowed[Any] | None) -> bytes | None:
        if value is None:
            return None
        key = _key_bytes("windowed", value, inner_serialize)
        return pack_windowed_key(key, value.window.start)

    def deserialize(data: bytes | None) -> Windowed[Any] | None:
        if not data:
            return None
        if len(data) < 8:
            raise SerializationError(
                f"Size of data received by TimeWindowedDeserializer is {len(data)}, less than the 8 of a window start"
            )
        key, start = unpack_windowed_key(data)
        end = window_end(start, size_ms)
        if start < 0 or end <= start:
            raise _impossible_window("windowed", start, end)
        return Windowed(inner_deserialize(key), Window(start, end))

    return serialize, deserialize


def session_windowed_functions(inner: Serde[Any]) -> Functions:
    """The functions for keys of session windows: key bytes, end, start."""
    inner_serialize = inner.serialize
    inner_deserialize = inner.deserialize

    def serialize(value: Windowed[Any] | None) -> bytes | None:
        if value is None:
            return None
        key = _key_bytes("session_windowed", value, inner_serialize)
        return pack_session_key(key, value.window.start, value.window.end)

    def deserialize(data: bytes | None) -> Windowed[Any] | None:
        if not data:
            return None
        if len(data) < 16:
            raise SerializationError(
                f"Size of data received by SessionWindowedDeserializer is {len(data)}, "
                "less than the 16 of a window end and start"
            )
        key, start, end = unpack_session_key(data)
        if start < 0 or end < start:
            raise _impossible_window("session_windowed", start, end)
        return Windowed(inner_deserialize(key), Window(start, end))

    return serialize, deserialize


def _key_bytes(serde: str, value: object, serialize: Callable[[Any], bytes | None]) -> bytes:
    if not isinstance(value, Windowed):
        wrong_type(f"{serde}(...)", value, "a Windowed key", "wrap it: Windowed(key, Window(start, end))")
    key = serialize(value.key)
    if key is None:
        raise SerializationError(f"Serdes.{serde}(...) cannot serialize {value!r}: the key inside must not be None")
    return key


def _impossible_window(serde: str, start: int, end: int) -> SerializationError:
    return SerializationError(
        f"Serdes.{serde}(...) read a window from {start} to {end}, which cannot be; "
        "check that the topic holds keys of this kind"
    )
