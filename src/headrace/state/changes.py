"""The changes of a task's stores, packed into bytes to be kept, sent and applied elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec


@dataclass
class StoreChanges:
    """What changed in one store: keys with their new values, None where they are gone, and facts.

    Before that, all keys were removed from the first of each two in `cleared` to before the second.
    """

    entries: dict[bytes, bytes | None] = field(default_factory=dict)
    facts: dict[str, bytes] = field(default_factory=dict)
    cleared: list[tuple[bytes, bytes]] = field(default_factory=list)


Changes = dict[str, StoreChanges]
"""By store."""

_Packed = list[tuple[str, list[bytes], list[bytes | None], dict[str, bytes], list[tuple[bytes, bytes]]]]
_decode = msgspec.msgpack.Decoder(_Packed).decode
_encode = msgspec.msgpack.Encoder().encode


def pack_changes(changes: Mapping[str, StoreChanges]) -> bytes:
    """The changes as bytes."""
    packed: _Packed = [
        (store, list(change.entries), list(change.entries.values()), change.facts, change.cleared)
        for store, change in changes.items()
        if change.entries or change.facts or change.cleared
    ]
    return _encode(packed)


def unpack_changes(data: bytes) -> Changes:
    """The changes that were packed."""
    return {
        store: StoreChanges(dict(zip(keys, values, strict=True)), facts, cleared)
        for store, keys, values, facts, cleared in _decode(data)
    }
