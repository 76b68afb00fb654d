"""The ordered store: the one thing a state store asks of the place where its bytes are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol


class OrderedStore(Protocol):
    """A map of bytes to bytes, ordered by key, with room for a few named facts about itself."""

    def get(self, key: bytes) -> bytes | None:
        """The value of the key."""
        ...

    def put(self, key: bytes, value: bytes) -> None:
        """Sets the value of the key."""
        ...

    def delete(self, key: bytes) -> None:
        """Removes the key, if it is there."""
        ...

    def range(self, low: bytes | None, high: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """The entries from `low` to before `high` in the order of their keys; None leaves an end open.

        The keys are those at the time of the call, less what is deleted before its turn comes.
        """
        ...

    def __len__(self) -> int:
        """How many keys there are."""
        ...

    def meta_get(self, name: str) -> bytes | None:
        """A fact kept beside the entries, which no range shows."""
        ...

    def meta_put(self, name: str, value: bytes) -> None:
        """Keeps a fact beside the entries."""
        ...


class BackendStore(OrderedStore, Protocol):
    """What a backend can do beside that: stores which keep entries by spans of time build on it."""

    def clear(self, low: bytes, high: bytes) -> None:
        """Removes all keys from `low` to before `high`, at a cost that does not follow how many there are elsewhere."""
        ...

    def families(self, part: slice) -> Mapping[bytes, bytes | list[bytes]]:
        """The keys put since the store was opened, by this part of them: the only one itself, or a list of several.

        It follows what is put and deleted. Who looks for all keys with a part need not have the others in order. The
        part is always the same.
        """
        ...

    def in_base(self, low: bytes, high: bytes) -> list[bytes]:
        """The keys from `low` to before `high` that were there when the store was opened, in order.

        Some of them may be gone, and some may be in `families` too.
        """
        ...


def after_prefix(prefix: bytes) -> bytes | None:
    """The least key that is greater than all keys with the prefix, None where there is no such key."""
    stem = prefix.rstrip(b"\xff")
    if not stem:
        return None
    return stem[:-1] + bytes((stem[-1] + 1,))
