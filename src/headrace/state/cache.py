"""The record cache: holds changelog records and results back, so that updates of the same key become one.

The stores themselves are written at once. What is counted, in which order entries leave and what an
eviction takes along is as in Kafka Streams.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from headrace.record import RecordContext

Write = Callable[[bytes, "bytes | None", "bytes | None", RecordContext], None]
"""Lets an entry through: key, new value, the value before the first update held back, context of the last update."""

ENTRY_SIZE = 24 + 1 + 20
"""Links of the entry, dirty flag; timestamp, offset and partition of the context."""


class RecordCache:
    """The bytes that all stores of a thread may hold back together."""

    __slots__ = ("_settle", "estimate", "max_bytes", "size")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size = 0
        self.estimate = 0
        """What values that are not serialized yet may add at most."""
        self._settle: list[Callable[[], None]] = []

    def on_settle(self, settle: Callable[[], None]) -> None:
        """Has a store put its values as bytes when the cache might be full."""
        self._settle.append(settle)

    def settle(self) -> None:
        """Has all sizes known."""
        for settle in self._settle:
            settle()

    def of_store(self, write: Write, evicted: Callable[[bytes], None] | None = None) -> StoreCache:
        """The part of one store; `write` lets its entries through, `evicted` is told what has left."""
        return StoreCache(self, write, evicted)


class StoreCache:
    """The entries of one store: those held back, and those merely remembered to order evictions."""

    __slots__ = ("_cache", "_evicted", "_write", "dirty", "entries", "size")

    put_in = frozenset({"get"})

    def __init__(self, cache: RecordCache, write: Write, evicted: Callable[[bytes], None] | None) -> None:
        self._cache = cache
        self._write = write
        self._evicted = evicted
        self.entries: OrderedDict[bytes, tuple[bytes | None, int]] = OrderedDict()
        """Value and size by key, the least recently used first."""
        self.dirty: dict[bytes, tuple[bytes | None, bytes | None, RecordContext]] = {}
        """New value, value before, context by key, in the order of the last update."""
        self.size = 0

    def get(self, key: bytes) -> tuple[bytes | None, int] | None:
        """The entry of the key, which counts as a use; its first item is the value."""
        entry = self.entries.get(key)
        if entry is not None:
            self.entries.move_to_end(key)
        return entry

    def touched(
        self, found: Iterator[tuple[bytes, bytes]], low: bytes | None, high: bytes | None, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """What a search of this range finds; entries count as used when their turn comes, deletions held back too."""
        entries = self.entries
        deleted = [
            key
            for key, update in self.dirty.items()
            if update[0] is None and (low is None or key >= low) and (high is None or key < high)
        ]
        deleted.sort(reverse=not reverse)
        for key, value in found:
            while deleted and (deleted[-1] > key if reverse else deleted[-1] < key):
                self.get(deleted.pop())
            if key in entries:
                entries.move_to_end(key)
            yield key, value
        while deleted:
            self.get(deleted.pop())

    def put(self, key: bytes, value: bytes | None, before: bytes | None, context: RecordContext) -> None:
        """Holds an update back; `before` is the value it replaces, if the key is not held back already."""
        dirty = self.dirty
        held = dirty.pop(key, None)
        dirty[key] = (value, before if held is None else held[1], context)
        size = ENTRY_SIZE + len(key)
        if value is not None:
            size += len(value)
        topic = context.topic
        if topic is not None:
            size += len(topic)
        if context.headers:
            for name, content in context.headers:
                size += len(name) + (0 if content is None else len(content))
        # As `_enter` does, without the call where the size stays the same.
        entries = self.entries
        known = entries.get(key)
        if known is not None and known[1] == size:
            entries[key] = (value, size)
            entries.move_to_end(key)
        else:
            self._enter(key, value, size)

    def remember(self, key: bytes, value: bytes) -> None:
        """Enters a value that was read."""
        self._enter(key, value, ENTRY_SIZE + len(key) + len(value))

    def forget(self, key: bytes) -> None:
        """Drops what is held of the key."""
        self.dirty.pop(key, None)
        entry = self.entries.pop(key, None)
        if entry is not None:
            self.size -= entry[1]
            self._cache.size -= entry[1]

    def clear(self) -> None:
        """Drops everything that is held."""
        self._cache.size -= self.size
        self.size = 0
        self.entries.clear()
        self.dirty = {}

    def flush(self) -> None:
        """Lets everything through that is held back."""
        if self.dirty:
            size = self.size
            self._let_through(list(self._taken().items()))
            self._cache.size += self.size - size

    def _enter(self, key: bytes, value: bytes | None, size: int) -> None:
        entries = self.entries
        cache = self._cache
        if cache.estimate and cache.size + cache.estimate + size > cache.max_bytes:
            cache.settle()
        known = entries.pop(key, None)
        entries[key] = (value, size)
        if known is not None:
            size -= known[1]
            if not size:
                return
        self.size += size
        cache.size += size
        if cache.size > cache.max_bytes:
            self._evict()

    def _evict(self) -> None:
        cache = self._cache
        entries = self.entries
        while cache.size > cache.max_bytes and entries:
            size = self.size
            key, entry = entries.popitem(last=False)
            self.size -= entry[1]
            if key in self.dirty:
                dirty = self._taken()
                evicted = dirty.pop(key)
                self._let_through([(key, evicted), *dirty.items()])
            if self._evicted is not None:
                self._evicted(key)
            # Only now: what the results of an eviction put into other stores still meets a full cache.
            cache.size += self.size - size

    def _taken(self) -> dict[bytes, tuple[bytes | None, bytes | None, RecordContext]]:
        dirty = self.dirty
        self.dirty = {}
        return dirty

    def _let_through(self, updates: list[tuple[bytes, tuple[bytes | None, bytes | None, RecordContext]]]) -> None:
        write = self._write
        deleted: list[bytes] = []
        for key, (value, before, context) in updates:
            write(key, value, before, context)
            if value is None:
                deleted.append(key)
        for key in deleted:
            if key not in self.dirty:
                entry = self.entries.pop(key, None)
                if entry is not None:
                    self.size -= entry[1]
