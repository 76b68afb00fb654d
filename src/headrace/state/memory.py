"""An ordered store in memory."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_COMPACT_FROM = 1024

Family = bytes | list[bytes]
"""Keys with a part in common: the only one itself, as most have no other, or a list."""


class MemoryStore:
    """A dict, and its keys in order from the first time that a range asks for them.

    Keys put since then wait until the next range. A range reads the list of keys that it found;
    a change of the list while a range reads it is made in a copy.
    """

    __slots__ = ("_data", "_families", "_family", "_first", "_keys", "_metadata", "_readers", "_waiting", "get")

    def __init__(self) -> None:
        self._data: dict[bytes, bytes] = {}
        self._keys: list[bytes] | None = None
        self._first = 0
        """Where in the list of keys the first one is; those before it are deleted."""
        self._waiting: list[bytes] = []
        self._readers = 0
        self._families: dict[bytes, Family] | None = None
        """The keys by a part of them, from the first time that they are asked for."""
        self._family = slice(None)
        """Which part that is."""
        self._metadata: dict[str, bytes] = {}
        self.get: Callable[[bytes], bytes | None] = self._data.get
        """The value of the key: the dict's own lookup, since nothing is called more often."""

    def put(self, key: bytes, value: bytes) -> None:
        """Sets the value of the key."""
        data, families = self._data, self._families
        if (families is not None or self._keys is not None) and key not in data:
            if self._keys is not None:
                self._waiting.append(key)
            if families is not None:
                first = families.setdefault(key[self._family], key)
                if first is not key:
                    self._join_family(families, first, key)
        data[key] = value

    def delete(self, key: bytes) -> None:
        """Removes the key, if it is there."""
        if self._data.pop(key, None) is None:
            return
        if self._families is not None:
            self._leave_family(self._families, key)
        if self._keys is None:
            return
        keys = self._changeable(self._settled())
        first = self._first
        index = bisect_left(keys, key, first)
        if index > first:
            del keys[index]
            return
        self._first = first = first + 1
        if first > _COMPACT_FROM and first * 2 > len(keys):
            del keys[:first]
            self._first = 0

    def clear(self, low: bytes, high: bytes) -> None:
        """Removes all keys from `low` to before `high`."""
        if self._keys is None:
            gone = [key for key in self._data if low <= key < high]
        else:
            keys = self._changeable(self._settled())
            start, end = bisect_left(keys, low, self._first), bisect_left(keys, high, self._first)
            gone = keys[start:end]
            del keys[start:end]
        for key in gone:
            del self._data[key]
            if self._families is not None:
                self._leave_family(self._families, key)

    def range(self, low: bytes | None, high: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """The entries from `low` to before `high` in the order of their keys; None leaves an end open."""
        if not self._data:
            return iter(())  # no order is needed yet
        keys = self._settled()
        first = self._first
        start = first if low is None else bisect_left(keys, low, first)
        end = len(keys) if high is None else bisect_left(keys, high, first)
        if start >= end:
            return iter(())
        self._readers += 1
        return self._read(keys, range(end - 1, start - 1, -1) if reverse else range(start, end))

    def count(self, low: bytes, high: bytes) -> int:
        """How many keys there are from `low` to before `high`."""
        keys = self._settled()
        return max(0, bisect_left(keys, high, self._first) - bisect_left(keys, low, self._first))

    def copy(self) -> MemoryStore:
        """A store of its own with the same entries and facts."""
        copy = MemoryStore()
        copy._data.update(self._data)
        copy._metadata.update(self._metadata)
        return copy

    def families(self, part: slice) -> Mapping[bytes, Family]:
        """All keys by this part of them; it follows what is put and deleted."""
        families = self._families
        if families is None:
            self._family = part
            families = self._families = {}
            for key in self._data:
                first = families.setdefault(key[part], key)
                if first is not key:
                    self._join_family(families, first, key)
        return families

    def in_base(self, low: bytes, high: bytes) -> list[bytes]:
        """Nothing: all keys are in `families`."""
        return []

    def _join_family(self, families: dict[bytes, Family], others: Family, key: bytes) -> None:
        if isinstance(others, list):
            others.append(key)
        else:
            families[key[self._family]] = [others, key]

    def _leave_family(self, families: dict[bytes, Family], key: bytes) -> None:
        part = key[self._family]
        found = families[part]
        if isinstance(found, list) and len(found) > 1:
            found.remove(key)
        else:
            del families[part]

    def entries(self) -> Iterable[tuple[bytes, bytes]]:
        """All entries, in no order."""
        return self._data.items()

    def __len__(self) -> int:
        return len(self._data)

    def meta_get(self, name: str) -> bytes | None:
        """A fact kept beside the entries."""
        return self._metadata.get(name)

    def meta_put(self, name: str, value: bytes) -> None:
        """Keeps a fact beside the entries."""
        self._metadata[name] = value

    def facts(self) -> dict[str, bytes]:
        """All facts by name."""
        return dict(self._metadata)

    def _read(self, keys: list[bytes], indexes: Sequence[int]) -> Iterator[tuple[bytes, bytes]]:
        get = self.get
        try:
            for index in indexes:
                key = keys[index]
                value = get(key)
                if value is not None:
                    yield key, value
        finally:
            if keys is self._keys:
                self._readers -= 1

    def _settled(self) -> list[bytes]:
        keys = self._keys
        if keys is None:
            self._keys = keys = sorted(self._data)
            return keys
        waiting = self._waiting
        if not waiting:
            return keys
        keys = self._changeable(keys)
        if len(waiting) * 8 > len(keys):
            del keys[: self._first]
            self._first = 0
            keys += waiting
            keys.sort()
        else:
            for key in waiting:
                insort(keys, key, self._first)
        waiting.clear()
        return keys

    def _changeable(self, keys: list[bytes]) -> list[bytes]:
        if self._readers:
            self._keys = keys = keys[self._first :]
            self._first = 0
            self._readers = 0
        return keys
