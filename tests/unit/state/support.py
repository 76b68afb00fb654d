"""What the tests of the stores share: a store over memory, with what it logs, drops and lets through."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.record import Headers, RecordContext
from headrace.serdes import Serdes
from headrace.state.cache import RecordCache
from headrace.state.environment import StoreEnvironment
from headrace.state.memory import MemoryStore
from headrace.state.open import open_store
from headrace.topology.stores import StoreKind, StoreSpec

CACHE = 10_000_000


class Bench:
    """A store, and everything that leaves it."""

    def __init__(self, kind: StoreKind, *, cache: RecordCache | int | None = None, **options: Any) -> None:
        self.spec = replace(
            StoreSpec("s", kind, Serdes.string(), Serdes.string(), caching=cache is not None), **options
        )
        self.ordered = MemoryStore()
        self.logged: list[tuple[bytes, bytes | None, int | None, Headers]] = []
        self.dropped: list[str] = []
        self.flushed: list[tuple[Any, Any, Any, int]] = []
        self.cache = RecordCache(cache) if isinstance(cache, int) else cache
        self.store = self.open()

    def open(self) -> Any:
        """Opens the store (again) over the same entries."""
        environment = StoreEnvironment(
            lambda key, value, timestamp, headers: self.logged.append((key, value, timestamp, headers)),
            self.cache,
            lambda context, reason: self.dropped.append(reason),
        )
        self.store = open_store(self.spec, self.ordered, environment)
        return self.store

    def reopen(self) -> Any:
        """Flushes the store and opens it again."""
        self.store.flush()
        return self.open()

    def listen(self, send_old: bool = False) -> None:
        """Collects what the cache lets through."""
        self.store.on_flush(
            lambda key, new, old, context: self.flushed.append((key, new, old, context.timestamp)), send_old
        )

    def log(self) -> list[tuple[bytes, bytes | None, int | None]]:
        """What was logged since the last call, without headers."""
        records = [record[:3] for record in self.logged]
        self.logged.clear()
        return records


def at(timestamp: int, topic: str | None = "in") -> RecordContext:
    """The context of a record of that time."""
    return RecordContext(timestamp, topic=topic, partition=0, offset=0)
