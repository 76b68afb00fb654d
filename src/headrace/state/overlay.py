"""Changes over a store that is only read: what a batch writes until it is known to be the one that counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from headrace.state.changes import StoreChanges
from headrace.state.memory import Family, MemoryStore

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

    def count(self, low: bytes, high: bytes) -> int:
        """How many keys there are from `low` to before `high`."""
        ...

    def meta_get(self, name: str) -> bytes | None:
        """A fact kept beside the entries."""
        ...

    def __len__(self) -> int:
        """How many keys there are."""
        ...


class OverlayStore:
    """An ordered store that shows a base with changes over it, and keeps the changes apart."""

    __slots__ = (
        "_base",
        "_base_fact",
        "_cleared",
        "_cleared_keys",
        "_deleted",
        "_get_written",
        "_seen",
        "_written",
        "facts",
        "keys_are_new",
        "put",
    )

    def __init__(self, base: OrderedReader, facts: dict[str, bytes] | None = None) -> None:
        """`facts` stand in for those of the base."""
        self._base = base
        self._base_fact = base.meta_get if facts is None else _no_fact
        self._written = MemoryStore()
        self._get_written = self._written.get
        self.put: Callable[[bytes, bytes], None] = self._written.put
        """Sets the value of the key; another function from the first deletion on, so none that is kept."""
        self._deleted: set[bytes] = set()
        self._cleared: list[tuple[bytes, bytes]] = []
        """From where to where the base is hidden."""
        self._cleared_keys = 0
        """How many keys of the base that are."""
        self._seen: dict[bytes, bytes | None] = {}
        """What the base was found to have by key: who updates a value asks for it more than once."""
        self.keys_are_new = False
        """Whether no key is ever put that the base has: who knows it says so, and spares a look for each of them."""
        self.facts: dict[str, bytes] = {} if facts is None else facts
        """The facts that were put or given."""

    def release(self) -> None:
        """Lets go of the base, which is closed: a reader of LMDB counts as one until nothing refers to it."""
        self._base = MemoryStore()
        self._base_fact = _no_fact

    def changes(self) -> StoreChanges:
        """Every key that was written or deleted, with its value, and what was cleared; without the facts."""
        entries: dict[bytes, bytes | None] = dict(self._written.entries())
        entries.update(dict.fromkeys(self._deleted))
        return StoreChanges(entries, cleared=self._cleared)

    def get(self, key: bytes) -> bytes | None:
        """The value of the key."""
        value = self._get_written(key)
        if value is None and key not in self._deleted:
            seen = self._seen
            return seen[key] if key in seen else self._get_base(key)
        return value

    def delete(self, key: bytes) -> None:
        """Removes the key, if it is there."""
        self._written.delete(key)
        self._deleted.add(key)
        self.put = self._put_again

    def clear(self, low: bytes, high: bytes) -> None:
        """Removes all keys from `low` to before `high`."""
        self._written.clear(low, high)
        if self._cleared:
            hidden = sum(not self._is_cleared(key) for key, _ in self._base.range(low, high))
        else:
            hidden = self._base.count(low, high)
        if hidden:
            self._cleared_keys += hidden
            self._cleared.append((low, high))
            self._seen.clear()

    def range(self, low: bytes | None, high: bytes | None, *, reverse: bool = False) -> Iterator[Entry]:
        """The entries from `low` to before `high` in the order of their keys; None leaves an end open."""
        written = self._written.range(low, high, reverse=reverse)
        base = self._base.range(low, high, reverse=reverse)
        if base is NOTHING:
            return written
        return self._merged(written, base, reverse)

    def families(self, part: slice) -> Mapping[bytes, Family]:
        """The keys that were written, by this part of them."""
        return self._written.families(part)

    def in_base(self, low: bytes, high: bytes) -> list[bytes]:
        """The keys of the base from `low` to before `high`, in order; some may be written anew or deleted."""
        base = self._base.range(low, high)
        return [] if base is NOTHING else [key for key, _ in base]

    def __len__(self) -> int:
        base = self._base
        count = len(base)
        if not count:
            return len(self._written)
        added = len(self._written)
        if not self.keys_are_new:
            # Most of them were looked for in the base before they were put.
            seen = self._seen
            added = sum(
                (seen[key] if key in seen else self._get_base(key)) is None for key, _ in self._written.entries()
            )
        removed = sum(self._get_base(key) is not None for key in self._deleted)
        return count - self._cleared_keys + added - removed

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
        value = seen[key] = None if self._cleared and self._is_cleared(key) else self._base.get(key)
        return value

    def _is_cleared(self, key: bytes) -> bool:
        return any(low <= key < high for low, high in self._cleared)

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
            if key == last:
                continue
            value = self._get_written(key)
            if value is not None:
                yield key, value
            elif key not in self._deleted and not (self._cleared and self._is_cleared(key)):
                yield entry
        if upper is not None:
            yield upper
            yield from written


@contextmanager
def released(overlays: dict[str, OverlayStore]) -> Iterator[dict[str, OverlayStore]]:
    """Has the overlays let go of their bases in the end."""
    try:
        yield overlays
    finally:
        for overlay in overlays.values():
            overlay.release()


def _no_fact(name: str) -> bytes | None:
    return None
