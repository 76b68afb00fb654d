"""Numbers that a store must know when it is opened again, kept beside its entries."""

from __future__ import annotations

import struct

from headrace.state.port import OrderedStore

STREAM_TIME = "stream-time"
"""Under which name stores keep the largest time they have seen."""
_NUMBER = struct.Struct(">q")


def load_number(ordered: OrderedStore, name: str, default: int) -> int:
    """The number kept under that name."""
    packed = ordered.meta_get(name)
    return default if packed is None else unpack_number(packed)


def save_number(ordered: OrderedStore, name: str, number: int) -> None:
    """Keeps the number under that name."""
    ordered.meta_put(name, _NUMBER.pack(number))


def unpack_number(packed: bytes) -> int:
    """A number that was kept."""
    number: int = _NUMBER.unpack(packed)[0]
    return number
