"""Changes over a store that is only read: what a batch writes until it is known to be the one that counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from headrace.state.memory import MemoryStore

Entry = tuple[bytes, bytes]

NOTHING: Iterator[Entry] = iter(())
"""What a reader returns for a range that is known to be empty."""


class OrderedReader(Protocol):
    """An ordered store that is only read."""

    def get(self, key: bytes) -> bytes | None:
        """The value of the key."""
        ...

    def range(self, low: bytes | None, high: bytes | None, *, reverse: bool = False) -> Iterator[Entry]:
        """The entries from `low` to before `high`."""
        ...

    def meta_get(self, name: str) -> bytes | None:
        """A fact kept beside the entries."""
        ...

    def __len__(self) -> int:
        """How many keys there are."""
        ...


class OverlayStore:
    """An ordered store that shows a base with changes over it, and keeps the changes apart."""

    __slots__ = ("_base", "_base_fact", "_deleted", "_get_written", "_seen", "_written", "facts", "keys_are_new", "put")

    def __init__(self, base: OrderedReader, facts: dict[str, bytes] | None = None) -> None:
        """`facts` stand in for those of the base."""
        self._base = base
        self._base_fact = base.meta_get if facts is None else _no_fact
        self._written = MemoryStore()
        self._get_written = self._written.get
        self.put: Callable[[bytes, bytes], None] = self._written.put
        """Sets the value of the key; another function from the first deletion on, so none that is kept."""
        self._deleted: set[bytes] = set()
        self._seen: dict[bytes, bytes | None] = {}
        """What the base was found to have by key: who updates a value asks for it more than once."""
        self.keys_are_new = False
        """Whether no key is ever put that the base has: who knows it says so, and spares a look for each of them."""
        self.facts: dict[str, bytes] = {} if facts is None else facts
        """The facts that were put or given."""

    def changes(self) -> dict[bytes, bytes | None]:
        """Every key that was written or deleted, with its value."""
        changes: dict[bytes, bytes | None] = dict(self._written.entries())
        changes.update(dict.fromkeys(self._deleted))
        return changes

    def get(self, key: bytes) -> bytes | None:
        """The value of the key."""
        value = self._get_written(key)
        if value is None and key not in self._deleted:
            seen = self._seen
            if key in seen:
                return seen[key]
            value = seen[key] = self._base.get(key)
        return value

    def delete(self, key: bytes) -> None:
        """Removes the key, if it is there."""
        self._written.delete(key)
        self._deleted.add(key)
        self.put = self._put_again

    def range(self, low: bytes | None, high: bytes | None, *, reverse: bool = False) -> Iterator[Entry]:
        """The entries from `low` to before `high` in the order of their keys; None leaves an end open."""
        written = self._written.range(low, high, reverse=reverse)
        base = self._base.range(low, high, reverse=reverse)
        if base is NOTHING:
            return written
        return self._merged(written, base, reverse)

    def family(self, prefix: bytes, suffix: int, low: bytes, high: bytes) -> Iterator[Entry] | None:
        """The entries between two keys that begin with the prefix and have so many bytes more; None: none."""
        written = self._written.family(prefix, suffix, low, high)
        base = self._base.range(low, high)
        if base is NOTHING:
            return written
        length = len(prefix) + suffix
        members = (entry for entry in base if len(entry[0]) == length)
        return self._merged(iter(()) if written is None else written, members, False)

    def __len__(self) -> int:
        base = self._base
        count = len(base)
        if not count:
            return len(self._written)
        added = len(self._written)
        if not self.keys_are_new:
            added = sum(self._get_base(key) is None for key, _ in self._written.entries())
        removed = sum(self._get_base(key) is not None for key in self._deleted)
        return count + added - removed

    def meta_get(self, name: str) -> bytes | None:
        """A fact kept beside the entries."""
        fact = self.facts.get(name)
        return self._base_fact(name) if fact is None else fact

    def meta_put(self, name: str, value: bytes) -> None:
        """Keeps a fact beside the entries."""
        self.facts[name] = value

    def _put_again(self, key: bytes, value: bytes) -> None:
        """Sets the value of a key that may have been deleted."""
        self._deleted.discard(key)
        self._written.put(key, value)

    def _get_base(self, key: bytes) -> bytes | None:
        seen = self._seen
        if key in seen:
            return seen[key]
        value = seen[key] = self._base.get(key)
        return value

    def _merged(self, written: Iterator[Entry], base: Iterator[Entry], reverse: bool) -> Iterator[Entry]:
        """Both in order; of the base only what is not deleted when its turn comes, with what was written meanwhile."""
        upper = next(written, None)
        last: bytes | None = None
        for entry in base:
            key = entry[0]
            while upper is not None and (upper[0] >= key if reverse else upper[0] <= key):
                yield upper
                last = upper[0]
                upper = next(written, None)
            if key != last and key not in self._deleted:
                value = self._get_written(key)
                yield entry if value is None else (key, value)
        if upper is not None:
            yield upper
            yield from written


def _no_fact(name: str) -> bytes | None:
    return None
