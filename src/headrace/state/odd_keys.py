"""Keys that LMDB does not take, the empty one and those of more than 511 bytes, in a database of their own.

An entry is kept under its store, the first part of its key and a hash of the whole of it, so that a range still finds
its entries side by side. The value begins with the key.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import blake2b
from itertools import groupby
from typing import Any

from headrace.state.overlay import Entry

LONGEST = 511
"""How many bytes a key of LMDB has at most."""
_PART = 400
_ID = 16
_LAST = b"\xff" * (_PART + _ID + 1)
"""Comes after all that a store may have."""
_SIZE = struct.Struct(">I")


class OddKeys:
    """The entries with odd keys of one store, in a transaction."""

    __slots__ = ("_database", "_store", "_transaction")

    def __init__(self, transaction: Any, database: Any, store: str) -> None:
        self._transaction = transaction
        self._database = database
        self._store = _hash(store.encode())

    @property
    def may_exist(self) -> bool:
        """Whether any store has such entries."""
        entries: int = self._transaction.stat(self._database)["entries"]
        return entries > 0

    def get(self, key: bytes) -> bytes | None:
        """The value of the key."""
        packed = self._transaction.get(self._place(key), db=self._database)
        return None if packed is None else _unpacked(packed)[1]

    def put(self, key: bytes, value: bytes) -> None:
        """Sets the value of the key."""
        self._transaction.put(self._place(key), _SIZE.pack(len(key)) + key + value, db=self._database)

    def delete(self, key: bytes) -> None:
        """Removes the key, if it is there."""
        self._transaction.delete(self._place(key), db=self._database)

    def range(self, low: bytes | None, high: bytes | None, *, reverse: bool = False) -> Iterator[Entry]:
        """The entries from `low` to before `high` in the order of their keys, read as far as they are asked for."""
        for entries in self._before(low or b"", high) if reverse else self._from(low or b"", high):
            for entry in sorted(map(_unpacked, entries), reverse=reverse):
                if (low is None or entry[0] >= low) and (high is None or entry[0] < high):
                    yield entry

    def erase(self) -> None:
        """Removes all entries."""
        with self._transaction.cursor(db=self._database) as cursor:
            found = cursor.set_range(self._store)
            while found and cursor.key().startswith(self._store):
                found = cursor.delete()

    def __len__(self) -> int:
        return sum(1 for entries in self._from(b"", None) for _ in entries) if self.may_exist else 0

    def _from(self, low: bytes, high: bytes | None) -> Iterator[Iterator[bytes]]:
        """The packed entries of one first part after the other, from that of `low` to that of `high`."""
        with self._transaction.cursor(db=self._database) as cursor:
            found = cursor.set_range(self._store + low[:_PART])
            for part, entries in groupby(cursor.iternext() if found else (), _part_of):
                if not part.startswith(self._store) or (high is not None and part[_ID:] > high[:_PART]):
                    return
                yield (packed for _, packed in entries)

    def _before(self, low: bytes, high: bytes | None) -> Iterator[Iterator[bytes]]:
        """The same from that of `high` back to that of `low`."""
        end = self._store + (_LAST if high is None else high[:_PART])
        if high is not None and len(high) >= _PART:
            end += _LAST[: _ID + 1]  # behind all entries with this part
        with self._transaction.cursor(db=self._database) as cursor:
            found = cursor.prev() if cursor.set_range(end) else cursor.last()
            for part, entries in groupby(cursor.iterprev() if found else (), _part_of):
                if not part.startswith(self._store) or part[_ID:] < low[:_PART]:
                    return
                yield (packed for _, packed in entries)

    def _place(self, key: bytes) -> bytes:
        # The empty key comes before all others.
        return self._store + key[:_PART] + (_hash(key) if key else bytes(_ID))


def _part_of(entry: Entry) -> bytes:
    return entry[0][:-_ID]


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=_ID).digest()


def _unpacked(packed: bytes) -> Entry:
    end = _SIZE.size + _SIZE.unpack_from(packed)[0]
    return packed[_SIZE.size : end], packed[end:]
