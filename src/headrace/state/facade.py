"""Stores as users see them: in a processor, in the test driver. They take the context from whoever runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from headrace.errors import StoreError
from headrace.record import RecordContext, ValueAndTimestamp
from headrace.topology.stores import StoreKind, StoreSpec
from headrace.windowed import Windowed

CurrentContext = Callable[[], RecordContext]
"""The context of the record being processed."""


def read_write(store: Any, spec: StoreSpec, current: CurrentContext) -> Any:
    """The store for a processor; values of stores with timestamps are `ValueAndTimestamp`."""
    return _facade(_TIMED, spec)(store, current)


def read_only(store: Any, spec: StoreSpec) -> Any:
    """The store for a processor that may not write it."""
    return _facade(_TIMED, spec)(store, _refusal(spec.name))


def plain(store: Any, spec: StoreSpec, current: CurrentContext | None = None) -> Any:
    """The store for queries: values without timestamps; without a context it cannot be written."""
    return _facade(_PLAIN, spec)(store, _refusal(spec.name) if current is None else current)


class Facade:
    """The base of the facades."""

    __slots__ = ("_current", "_store")

    def __init__(self, store: Any, current: CurrentContext) -> None:
        self._store = store
        self._current = current

    @property
    def name(self) -> str:
        """The store's name."""
        name: str = self._store.name
        return name


class KeyValueFacade(Facade):
    """Values by key."""

    __slots__ = ()

    def get(self, key: Any) -> Any:
        """The value of the key; None where it has none."""
        return self._store.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of the key; None deletes it."""
        self._store.put(key, value, self._current())

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Sets the value unless the key has one, which is the answer."""
        return self._store.put_if_absent(key, value, self._current())

    def delete(self, key: Any) -> Any:
        """Deletes the key; the answer is the value it had."""
        return self._store.delete(key, self._current())

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """Every key and value, in the order of the serialized keys."""
        entries: Iterator[tuple[Any, Any]] = self._store.all(reverse=reverse)
        return entries

    def range(self, low: Any, high: Any, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """The keys from `low` to `high`, both included; None leaves an end open."""
        entries: Iterator[tuple[Any, Any]] = self._store.range(low, high, reverse=reverse)
        return entries

    def prefix(self, prefix: Any, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """The keys whose bytes begin with those of the prefix, which may be given as bytes."""
        entries: Iterator[tuple[Any, Any]] = self._store.prefix(prefix, reverse=reverse)
        return entries

    def approximate_count(self) -> int:
        """About how many keys there are."""
        count: int = self._store.approximate_count()
        return count


class TimestampedKeyValueFacade(KeyValueFacade):
    """Values with timestamps by key: `ValueAndTimestamp`. A value put without one gets the record's."""

    __slots__ = ()

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of the key; None deletes it."""
        context = self._current()
        self._store.put(key, *_timed(value, context), context)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Sets the value unless the key has one, which is the answer."""
        context = self._current()
        return self._store.put_if_absent(key, *_timed(value, context), context)


class PlainKeyValueFacade(TimestampedKeyValueFacade):
    """Values by key, of a store that has timestamps as well."""

    __slots__ = ()

    def get(self, key: Any) -> Any:
        """The value of the key; None where it has none."""
        return _untimed(self._store.get(key))

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Sets the value unless the key has one, which is the answer."""
        return _untimed(super().put_if_absent(key, value))

    def delete(self, key: Any) -> Any:
        """Deletes the key; the answer is the value it had."""
        return _untimed(super().delete(key))

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """Every key and value, in the order of the serialized keys."""
        return _untimed_entries(super().all(reverse=reverse))

    def range(self, low: Any, high: Any, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """The keys from `low` to `high`, both included; None leaves an end open."""
        return _untimed_entries(super().range(low, high, reverse=reverse))

    def prefix(self, prefix: Any, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """The keys whose bytes begin with those of the prefix, which may be given as bytes."""
        return _untimed_entries(super().prefix(prefix, reverse=reverse))


class WindowFacade(Facade):
    """Values by key and window."""

    __slots__ = ()

    def put(self, key: Any, value: Any, start_ms: int) -> None:
        """Sets the value of the key in the window that starts then; None deletes it."""
        self._store.put(key, value, start_ms, self._current())

    def fetch_one(self, key: Any, start_ms: int) -> Any:
        """The value of the key in the window that starts then; None where it has none."""
        return self._store.fetch_one(key, start_ms)

    def fetch(self, key: Any, from_ms: int, to_ms: int, *, reverse: bool = False) -> Iterator[tuple[int, Any]]:
        """Start and value of the key's windows that start within these times, both included."""
        entries: Iterator[tuple[int, Any]] = self._store.fetch(key, from_ms, to_ms, reverse=reverse)
        return entries

    def fetch_all(self, from_ms: int, to_ms: int, *, reverse: bool = False) -> Iterator[tuple[Windowed[Any], Any]]:
        """The windows of all keys that start within these times, both included."""
        entries: Iterator[tuple[Windowed[Any], Any]] = self._store.fetch_all(from_ms, to_ms, reverse=reverse)
        return entries

    def fetch_range(
        self, key_from: Any, key_to: Any, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """The windows within these times of the keys from one to another, all ends included."""
        entries: Iterator[tuple[Windowed[Any], Any]] = self._store.fetch_range(
            key_from, key_to, from_ms, to_ms, reverse=reverse
        )
        return entries

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Windowed[Any], Any]]:
        """Every window and its value."""
        entries: Iterator[tuple[Windowed[Any], Any]] = self._store.all(reverse=reverse)
        return entries


class TimestampedWindowFacade(WindowFacade):
    """Values with timestamps by key and window: `ValueAndTimestamp`. A value put without one gets the record's."""

    __slots__ = ()

    def put(self, key: Any, value: Any, start_ms: int) -> None:
        """Sets the value of the key in the window that starts then; None deletes it."""
        context = self._current()
        self._store.put(key, *_timed(value, context), start_ms, context)


class PlainWindowFacade(TimestampedWindowFacade):
    """Values by key and window, of a store that has timestamps as well."""

    __slots__ = ()

    def fetch_one(self, key: Any, start_ms: int) -> Any:
        """The value of the key in the window that starts then; None where it has none."""
        return _untimed(super().fetch_one(key, start_ms))

    def fetch(self, key: Any, from_ms: int, to_ms: int, *, reverse: bool = False) -> Iterator[tuple[int, Any]]:
        """Start and value of the key's windows that start within these times, both included."""
        return _untimed_entries(super().fetch(key, from_ms, to_ms, reverse=reverse))

    def fetch_all(self, from_ms: int, to_ms: int, *, reverse: bool = False) -> Iterator[tuple[Windowed[Any], Any]]:
        """The windows of all keys that start within these times, both included."""
        return _untimed_entries(super().fetch_all(from_ms, to_ms, reverse=reverse))

    def fetch_range(
        self, key_from: Any, key_to: Any, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """The windows within these times of the keys from one to another, all ends included."""
        return _untimed_entries(super().fetch_range(key_from, key_to, from_ms, to_ms, reverse=reverse))

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Windowed[Any], Any]]:
        """Every window and its value."""
        return _untimed_entries(super().all(reverse=reverse))


class SessionFacade(Facade):
    """Values by key and session."""

    __slots__ = ()

    def put(self, windowed: Windowed[Any], value: Any) -> None:
        """Sets the value of the session; None deletes it."""
        self._store.put(windowed, value, self._current())

    def remove(self, windowed: Windowed[Any]) -> None:
        """Deletes the session."""
        self._store.remove(windowed, self._current())

    def fetch_one(self, key: Any, start_ms: int, end_ms: int) -> Any:
        """The value of the session with exactly these times; None where there is none."""
        return self._store.fetch_one(key, start_ms, end_ms)

    def fetch(self, key: Any, *, reverse: bool = False) -> Iterator[tuple[Windowed[Any], Any]]:
        """Every session of the key."""
        entries: Iterator[tuple[Windowed[Any], Any]] = self._store.fetch(key, reverse=reverse)
        return entries

    def find_sessions(
        self, key: Any, earliest_end_ms: int, latest_start_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """The key's sessions that end no earlier and start no later than these times."""
        entries: Iterator[tuple[Windowed[Any], Any]] = self._store.find_sessions(
            key, earliest_end_ms, latest_start_ms, reverse=reverse
        )
        return entries

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Windowed[Any], Any]]:
        """Every session and its value."""
        entries: Iterator[tuple[Windowed[Any], Any]] = self._store.all(reverse=reverse)
        return entries


class VersionedFacade(Facade):
    """Values by key and time; answers have `.value` and `.timestamp`."""

    __slots__ = ()

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp | None:
        """The latest value of the key, or the one it had at that time."""
        found: ValueAndTimestamp | None
        found = self._store.get(key) if as_of is None else self._store.get_as_of(key, as_of)
        return found

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        """Sets the value from that time on; answers until when it is valid, -1 if it is the latest."""
        valid_to: int = self._store.put(key, value, timestamp, self._current())
        return valid_to

    def delete(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        """Deletes the value from that time on; answers the one it had then."""
        old: ValueAndTimestamp | None = self._store.delete(key, timestamp, self._current())
        return old


_TIMED: dict[StoreKind, type[Facade]] = {
    StoreKind.KEY_VALUE: KeyValueFacade,
    StoreKind.TIMESTAMPED_KEY_VALUE: TimestampedKeyValueFacade,
    StoreKind.VERSIONED: VersionedFacade,
    StoreKind.WINDOW: WindowFacade,
    StoreKind.TIMESTAMPED_WINDOW: TimestampedWindowFacade,
    StoreKind.SESSION: SessionFacade,
}
_PLAIN: dict[StoreKind, type[Facade]] = {
    **_TIMED,
    StoreKind.TIMESTAMPED_KEY_VALUE: PlainKeyValueFacade,
    StoreKind.TIMESTAMPED_WINDOW: PlainWindowFacade,
}


def _facade(facades: dict[StoreKind, type[Facade]], spec: StoreSpec) -> type[Facade]:
    facade = facades.get(spec.kind)
    if facade is None:
        raise StoreError(f"Store {spec.name} is internal to an operator ({spec.kind.value}) and cannot be accessed")
    return facade


def _refusal(name: str) -> CurrentContext:
    def refuse() -> NoReturn:
        raise StoreError(f"Store {name} is read-only here: only the node that it belongs to can change it")

    return refuse


def _timed(value: Any, context: RecordContext) -> tuple[Any, int]:
    if isinstance(value, ValueAndTimestamp):
        return value.value, value.timestamp
    return value, context.timestamp


def _untimed(found: ValueAndTimestamp | None) -> Any:
    return None if found is None else found.value


def _untimed_entries(entries: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    for key, (value, _) in entries:
        yield key, value
