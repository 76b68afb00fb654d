"""Serde: a pair of functions between Python values and bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NoReturn, Protocol, TypeVar, cast, overload

from headrace.errors import ConfigError, SerializationError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)

BytesLike = bytes | bytearray | memoryview
Rebuild = tuple[Callable[..., Any], tuple[Any, ...]]


class Serializer(Protocol[T_contra]):
    """What `Serde.serialize` is: None gives None, anything else gives bytes."""

    @overload
    def __call__(self, value: None, /) -> None: ...
    @overload
    def __call__(self, value: T_contra, /) -> bytes: ...


class Deserializer(Protocol[T_co]):
    """What `Serde.deserialize` is: None gives None, bytes give a value."""

    @overload
    def __call__(self, data: None, /) -> None: ...
    @overload
    def __call__(self, data: bytes, /) -> T_co: ...


class Serde(Generic[T]):
    """Both directions between values and bytes, as two plain functions on the instance.

    `Serde(serialize, deserialize)` wraps two functions of one argument. None stays None,
    which is a tombstone in Kafka, and the functions never see it.
    """

    __slots__ = ("_rebuild", "deserialize", "name", "serialize")

    name: str
    serialize: Serializer[T]
    deserialize: Deserializer[T]
    _rebuild: Rebuild

    def __init__(
        self,
        serialize: Callable[[T], BytesLike | None],
        deserialize: Callable[[bytes], T],
        name: str | None = None,
    ) -> None:
        for argument, function in (("serialize", serialize), ("deserialize", deserialize)):
            if not callable(function):
                raise ConfigError(
                    f"Serde: {argument} is {type(function).__name__}, not a function; "
                    "pass Serde(serialize, deserialize), two functions of one argument"
                )
        label = name or f"{_name_of(serialize)}, {_name_of(deserialize)}"
        self._fill(
            label,
            _skipping_none(serialize, label),
            lambda data: None if data is None else deserialize(data),
            (Serde, (serialize, deserialize, name)),
        )

    @classmethod
    def handling_none(
        cls,
        name: str,
        serialize: Callable[[T | None], bytes | None],
        deserialize: Callable[[bytes | None], T | None],
        *,
        rebuild: Rebuild,
    ) -> Serde[T]:
        """A serde whose functions return None for None themselves, one call less per record.

        `rebuild` is a function and its arguments that make the serde again in another process.
        """
        serde = cls.__new__(cls)
        serde._fill(name, serialize, deserialize, rebuild)
        return serde

    def _fill(
        self,
        name: str,
        serialize: Callable[[T | None], bytes | None],
        deserialize: Callable[[bytes | None], T | None],
        rebuild: Rebuild,
    ) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "serialize", cast("Serializer[T]", serialize))
        put(self, "deserialize", cast("Deserializer[T]", deserialize))
        put(self, "_rebuild", rebuild)

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"{self!r} is immutable: make another Serde instead of changing {attribute}")

    def __delattr__(self, attribute: str) -> NoReturn:
        raise AttributeError(f"{self!r} is immutable: {attribute} cannot be deleted")

    def __reduce__(self) -> Rebuild:
        return self._rebuild

    def __repr__(self) -> str:
        return f"Serde({self.name})"


def _name_of(function: object) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__name__)


def _skipping_none(serialize: Callable[[T], BytesLike | None], label: str) -> Callable[[T | None], bytes | None]:
    def serialize_unless_none(value: T | None) -> bytes | None:
        if value is None:
            return None
        data: object = serialize(value)
        if type(data) is bytes or data is None:
            return data
        if isinstance(data, (bytes, bytearray, memoryview)):
            return bytes(data)
        raise SerializationError(
            f"Serde({label}): the serialize function returned {type(data).__name__}, not bytes; "
            "encode the result, for example with .encode()"
        )

    return serialize_unless_none
