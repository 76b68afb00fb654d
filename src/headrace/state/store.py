"""What all typed stores have in common: a name, serdes, a changelog, a cache and what is told when it is flushed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from headrace.errors import StoreError
from headrace.record import NO_HEADERS, Headers, RecordContext
from headrace.serdes import Serde
from headrace.state.environment import StoreEnvironment
from headrace.state.live import LiveValues
from headrace.state.port import OrderedStore
from headrace.topology.stores import StoreSpec

logger = logging.getLogger(__name__)

_NO_KEY = object()

FlushListener = Callable[[Any, Any, Any, RecordContext], None]
"""Takes what a cache lets through: key, new value, old value, context of the last update."""


class Store:
    """The base of the typed stores."""

    __slots__ = (
        "_cache",
        "_deserialize_key",
        "_deserialize_value",
        "_dropped",
        "_is_table",
        "_listener",
        "_live",
        "_log",
        "_logs_headers",
        "_ordered",
        "_recent_key",
        "_recent_packed",
        "_send_old",
        "_serialize_key",
        "_serialize_value",
        "cached",
        "name",
    )

    is_versioned = False

    def __init__(self, spec: StoreSpec, ordered: OrderedStore, environment: StoreEnvironment) -> None:
        key, value = serde_of(spec, spec.key, "key"), serde_of(spec, spec.value, "value")
        self.name = spec.name
        self._serialize_key: Callable[[Any], bytes] = key.serialize
        self._deserialize_key: Callable[[bytes], Any] = key.deserialize
        self._serialize_value: Callable[[Any], bytes | None] = value.serialize
        self._deserialize_value: Callable[[bytes], Any] = value.deserialize
        self._ordered = ordered
        self._recent_key: object = _NO_KEY
        """The key that was packed last: who updates a value names the key twice."""
        self._recent_packed = b""
        self._log = environment.log if spec.logging else None
        self._logs_headers = spec.logs_headers
        self._dropped = environment.dropped
        self._listener: FlushListener | None = None
        self._send_old = False
        self._is_table = False
        cache = environment.cache if spec.caching else None
        self._live: LiveValues | None = None
        """Values that are held as they are; None where they have no plain form or the store no cache."""
        self._cache = None if cache is None else cache.of_store(self._let_through, self._on_evicted())
        self.cached = cache is not None
        """Whether updates are held back until `flush`."""

    def on_flush(self, listener: FlushListener | None, send_old: bool) -> None:
        """Has updates passed on that the cache lets through, with the value before them where `send_old`.

        Also where nobody listens, what was put and deleted in between two flushes leaves no trace from now on.
        """
        self._listener = listener
        self._send_old = send_old
        self._is_table = True

    def flush(self) -> None:
        """Lets through what the cache holds back, and saves the facts."""
        if self._cache is not None:
            self._cache.flush()
        self.save_facts()

    @property
    def holds_back(self) -> bool:
        """Whether there is anything that a flush would let through."""
        return (self._cache is not None and bool(self._cache.dirty)) or (
            self._live is not None and bool(self._live.held)
        )

    def flush_and_forget(self) -> None:
        """The same, for a store that is closed next."""
        self.flush()

    def save_facts(self) -> None:
        """Keeps what the store must know when it is opened again, beside its entries."""

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        """Takes over a record of the changelog, in Headrace's or Kafka Streams' form.

        After the last one the facts have to be saved and the store opened again (`headrace.state.rebuild`).
        """
        raise NotImplementedError

    def close(self) -> None:
        """Lets go of the cache's entries; what was held back stays unsaid."""
        if self._cache is not None:
            self._cache.clear()

    def _on_evicted(self) -> Callable[[bytes], None] | None:
        return None

    def _scan(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """A range of the ordered store, which counts as a use of the entries that the cache has of it."""
        found = self._ordered.range(low, high, reverse=reverse)
        return found if self._cache is None else self._cache.touched(found, low, high, reverse)

    def _let_through(self, key: bytes, new: bytes | None, old: bytes | None, context: RecordContext) -> None:
        self._pass_on(key, new, old, context)

    def _pass_on(self, key: bytes, new: bytes | None, old: bytes | None, context: RecordContext) -> None:
        """Writes an update to the changelog and tells who listens."""
        if self._is_table and new is None and old is None:
            return
        self._log_update(key, new, context)
        listener = self._listener
        if listener is not None:
            listener(
                self._listener_key(key),
                None if new is None else self._listener_value(new),
                self._listener_value(old) if self._send_old and old is not None else None,
                context,
            )

    def _log_update(self, key: bytes, value: bytes | None, context: RecordContext) -> None:
        if self._log is not None:
            self._log(key, value, context.timestamp, context.headers if self._logs_headers else NO_HEADERS)

    def _logged_headers(self, context: RecordContext) -> Headers:
        return context.headers if self._logs_headers else NO_HEADERS

    def _listener_key(self, key: bytes) -> Any:
        return self._deserialize_key(key)

    def _listener_value(self, value: bytes) -> Any:
        return self._deserialize_value(value)

    def _key(self, key: Any) -> bytes:
        if key is self._recent_key:
            return self._recent_packed
        if key is None:
            raise self.null("key")
        packed = self._serialize_key(key)
        if type(key) is str:  # a key of another type may change and still be the same object
            self._recent_key, self._recent_packed = key, packed
        return packed

    def null(self, what: str) -> StoreError:
        """The error for an argument that is None and must not be."""
        return StoreError(f"Store {self.name}: {what} cannot be null")


def serde_of(spec: StoreSpec, serde: object, what: str) -> Serde[Any]:
    """The serde, which the store cannot do without; by now it is found, whatever it came from."""
    if not isinstance(serde, Serde):
        raise StoreError(f"Store {spec.name}: it has no {what} serde, and there is no default one")
    return serde


def is_inverted(name: str, low: bytes | None, high: bytes | None) -> bool:
    """Whether the range of keys is empty because its ends are the wrong way round, which is worth a warning."""
    if low is None or high is None or low <= high:
        return False
    logger.warning(
        "Store %s: the range is empty, its first key comes after its last. The order is that of the serialized "
        "bytes, which is not that of negative numbers.",
        name,
    )
    return True
