"""The order of a Java `HashSet` of byte arrays, in which Kafka Streams writes some changelog records."""

from __future__ import annotations

from collections.abc import Collection

_SMALLEST_TABLE = 16


class HashOrder:
    """Orders keys as one `HashSet` would that is filled and cleared again and again: its table only grows."""

    __slots__ = ("_table",)

    def __init__(self) -> None:
        self._table = _SMALLEST_TABLE

    def of(self, keys: Collection[bytes]) -> list[bytes]:
        """The keys, given in the order they were added, in that of the set."""
        while len(keys) * 4 > self._table * 3:
            self._table *= 2
        if len(keys) < 2:
            return list(keys)
        mask = self._table - 1
        return sorted(keys, key=lambda key: _spread_hash(key) & mask)


def _spread_hash(key: bytes) -> int:
    code = 1
    for byte in key:
        code = (31 * code + (byte if byte < 128 else byte - 256)) & 0xFFFFFFFF
    return code ^ code >> 16
