"""Numbers that a store must know when it is opened again, kept beside its entries."""

from __future__ import annotations

import struct

from headrace.state.port import OrderedStore

_NUMBER = struct.Struct(">q")


def load_number(ordered: OrderedStore, name: str, default: int) -> int:
    """The number kept under that name."""
    packed = ordered.meta_get(name)
    if packed is None:
        return default
    number: int = _NUMBER.unpack(packed)[0]
    return number


def save_number(ordered: OrderedStore, name: str, number: int) -> None:
    """Keeps the number under that name."""
    ordered.meta_put(name, _NUMBER.pack(number))
