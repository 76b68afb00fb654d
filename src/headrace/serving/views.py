"""Stores of the whole application as Python programs ask them: typed, whichever instance has the key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any, TypeVar

from headrace.duration import MAX_MILLIS
from headrace.errors import StoreError
from headrace.record import ValueAndTimestamp
from headrace.serving.queries import Row
from headrace.serving.reading import ANY, Demands, Page, Reader, UnavailableError
from headrace.topology.stores import StoreKind
from headrace.windowed import Window, Windowed

T = TypeVar("T")

_PAGE = 1000

Run = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine to its end from a thread."""


class AsyncStore:
    """A store for asynchronous programs. What cannot be answered now raises `UnavailableError`."""

    def __init__(self, reader: Reader, name: str, demands: Demands = ANY) -> None:
        store = reader.store(name)
        key, value = store.spec.key, store.spec.value
        self._key: Any = key
        self._value: Any = value
        self._is_versioned = store.spec.kind is StoreKind.VERSIONED
        self._reader = reader
        self._demands = demands
        self.name = name

    def demanding(self, demands: Demands) -> AsyncStore:
        """The same store, asked for another freshness."""
        return AsyncStore(self._reader, self.name, demands)

    async def get(self, key: Any, as_of: int | None = None) -> Any:
        """The value of the key, None where it has none; of a versioned store with its time."""
        answer = await self._reader.get(self.name, self._key.serialize(key), self._demands, as_of)
        return self._content(answer.rows[0]) if answer.rows else None

    async def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """The values of those keys that have one."""
        wanted = {self._key.serialize(key): key for key in keys}
        packed = list(wanted)
        found: dict[Any, Any] = {}
        for first in range(0, len(packed), _PAGE):
            answer = await self._reader.get_many(self.name, packed[first : first + _PAGE], self._demands)
            found.update((wanted[row.key], self._content(row)) for row in answer.rows)
        return found

    def all(self) -> AsyncIterator[tuple[Any, Any]]:
        """Every key and value in the order of the serialized keys; of a window or session store, every window."""
        if self._reader.store(self.name).spec.kind in _KEYED:
            return self._scan()
        return self.fetch_all()

    def range(self, low: Any, high: Any) -> AsyncIterator[tuple[Any, Any]]:
        """The keys from `low` to `high`, both included; None leaves an end open."""
        first = None if low is None else self._key.serialize(low)
        last = None if high is None else self._key.serialize(high)
        return self._scan(low=first, high=last)

    def prefix(self, prefix: Any) -> AsyncIterator[tuple[Any, Any]]:
        """The keys whose bytes begin with those of the prefix, which may be given as bytes."""
        return self._scan(prefix=prefix if isinstance(prefix, bytes) else self._key.serialize(prefix))

    async def approximate_count(self) -> int:
        """About how many entries there are."""
        answer = await self._reader.count(self.name, self._demands)
        if answer.refused:
            raise UnavailableError(self.name, answer.refused)
        return answer.count

    async def fetch(self, key: Any, from_ms: int = 0, to_ms: int = MAX_MILLIS) -> list[tuple[Any, Any]]:
        """The key's windows as (start, value), or its sessions as (Windowed, value)."""
        packed = self._key.serialize(key)
        is_session = self._reader.store(self.name).spec.kind is StoreKind.SESSION
        ask = self._reader.sessions if is_session else self._reader.windows
        found: list[tuple[Any, Any]] = []
        async for row in self._pages(
            lambda cursor: ask(self.name, packed, from_ms, to_ms, limit=_PAGE, cursor=cursor, demands=self._demands)
        ):
            found.append((self._windowed(row) if is_session else row.start, self._content(row)))
        return found

    async def fetch_all(self, from_ms: int = 0, to_ms: int = MAX_MILLIS) -> AsyncIterator[tuple[Windowed[Any], Any]]:
        """The windows or sessions of all keys within these times."""
        async for row in self._pages(
            lambda cursor: self._reader.times(
                self.name, from_ms, to_ms, limit=_PAGE, cursor=cursor, demands=self._demands
            )
        ):
            yield self._windowed(row), self._content(row)

    async def _scan(self, **ends: bytes | None) -> AsyncIterator[tuple[Any, Any]]:
        async for row in self._pages(
            lambda cursor: self._reader.scan(self.name, **ends, limit=_PAGE, cursor=cursor, demands=self._demands)
        ):
            yield self._key.deserialize(row.key), self._content(row)

    async def _pages(self, ask: Callable[[str | None], Awaitable[Page]]) -> AsyncIterator[Row]:
        cursor: str | None = None
        while True:
            page = await ask(cursor)
            if page.missing:
                raise UnavailableError(self.name, page.missing)
            for row in page.rows:
                yield row
            cursor = page.cursor
            if cursor is None:
                return

    def _content(self, row: Row) -> Any:
        value = self._value.deserialize(row.value)
        return ValueAndTimestamp(value, row.timestamp or 0) if self._is_versioned else value

    def _windowed(self, row: Row) -> Windowed[Any]:
        assert row.start is not None and row.end is not None
        return Windowed(self._key.deserialize(row.key), Window(row.start, row.end))


_KEYED = (StoreKind.KEY_VALUE, StoreKind.TIMESTAMPED_KEY_VALUE, StoreKind.VERSIONED)


class Store:
    """A store for any program. What cannot be answered now raises `UnavailableError`."""

    def __init__(self, store: AsyncStore, run: Run) -> None:
        self._store = store
        self._run = run

    @property
    def name(self) -> str:
        """The store's name."""
        return self._store.name

    def demanding(self, demands: Demands) -> Store:
        """The same store, asked for another freshness."""
        return Store(self._store.demanding(demands), self._run)

    def get(self, key: Any, as_of: int | None = None) -> Any:
        """The value of the key, None where it has none; of a versioned store with its time."""
        return self._run(self._store.get(key, as_of))

    def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """The values of those keys that have one."""
        found: dict[Any, Any] = self._run(self._store.get_many(keys))
        return found

    def all(self) -> Iterator[tuple[Any, Any]]:
        """Every key and value in the order of the serialized keys; of a window or session store, every window."""
        return self._iterate(self._store.all())

    def range(self, low: Any, high: Any) -> Iterator[tuple[Any, Any]]:
        """The keys from `low` to `high`, both included; None leaves an end open."""
        return self._iterate(self._store.range(low, high))

    def prefix(self, prefix: Any) -> Iterator[tuple[Any, Any]]:
        """The keys whose bytes begin with those of the prefix, which may be given as bytes."""
        return self._iterate(self._store.prefix(prefix))

    def approximate_count(self) -> int:
        """About how many entries there are."""
        count: int = self._run(self._store.approximate_count())
        return count

    def fetch(self, key: Any, from_ms: int = 0, to_ms: int = MAX_MILLIS) -> list[tuple[Any, Any]]:
        """The key's windows as (start, value), or its sessions as (Windowed, value)."""
        found: list[tuple[Any, Any]] = self._run(self._store.fetch(key, from_ms, to_ms))
        return found

    def fetch_all(self, from_ms: int = 0, to_ms: int = MAX_MILLIS) -> Iterator[tuple[Windowed[Any], Any]]:
        """The windows or sessions of all keys within these times."""
        return self._iterate(self._store.fetch_all(from_ms, to_ms))

    def _iterate(self, entries: AsyncIterator[T]) -> Iterator[T]:
        async def following() -> tuple[T] | None:
            try:
                return (await anext(entries),)
            except StopAsyncIteration:
                return None

        while (entry := self._run(following())) is not None:
            yield entry[0]


def runner_on(loop: asyncio.AbstractEventLoop) -> Run:
    """Runs coroutines on a loop that another thread runs."""

    def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
        if _running_loop() is loop:
            coroutine.close()
            raise StoreError("A store cannot be waited for in an asynchronous handler: use AsyncStore and await.")
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    return run


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
