"""Direct forms: what a serde's function does to an ordinary value, as one function written in C.

A direct form may raise anything, and for a value that is not ordinary it may not even raise what the serde would.
Who uses one asks the serde's own function in that case; so only functions without side effects have direct forms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

DIRECT = "__headrace_direct__"
"""The attribute of a serde's function that has its direct form."""


REREAD = "__headrace_reread__"
"""The attribute of a serde's `deserialize` that says what its data may stand for."""


class Reread(NamedTuple):
    """What was read may be passed on as the bytes it was read from, instead of being serialized again.

    The bytes may differ in form, such as in spaces or fields that nobody reads, but not in what the serde reads.
    """

    serialize: Callable[[Any], bytes | None]
    """The serde's own function, which would be called instead."""
    fields: frozenset[str]
    """What the objects that are read are made of: to look at these changes nothing."""
    scalars: frozenset[str]
    """Those of them that have values which nobody can change."""


class DirectEncoder(NamedTuple):
    """Gives the same bytes as the serde for objects of exactly this type, or raises."""

    type: type[Any]
    encode: Callable[[Any], bytes]


def has_direct_decoder(deserialize: F, decode: Callable[[bytes], Any]) -> F:
    """Gives `deserialize` a direct form for bytes."""
    setattr(deserialize, DIRECT, decode)
    return deserialize


def has_direct_encoder(serialize: F, of: type[Any], encode: Callable[[Any], bytes]) -> F:
    """Gives `serialize` a direct form for objects of exactly that type."""
    setattr(serialize, DIRECT, DirectEncoder(of, encode))
    return serialize


def can_be_reread(deserialize: Any, reread: Reread) -> None:
    """Says that what `deserialize` has read may be passed on as bytes."""
    setattr(deserialize, REREAD, reread)


def reread_of(deserialize: Any) -> Reread | None:
    """Whether what `deserialize` has read may be passed on as bytes, and for which `serialize`."""
    found: Reread | None = getattr(deserialize, REREAD, None)
    return found


def direct_decoder(deserialize: Any) -> Callable[[bytes], Any] | None:
    """The direct form of a serde's `deserialize`."""
    found: Callable[[bytes], Any] | None = getattr(deserialize, DIRECT, None)
    return found


def direct_encoder(serialize: Any) -> DirectEncoder | None:
    """The direct form of a serde's `serialize`."""
    found: DirectEncoder | None = getattr(serialize, DIRECT, None)
    return found
