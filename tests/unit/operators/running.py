"""Runs one operator over real stores in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.operators.operator import Forward, Operator, ValueGetter
from headrace.operators.views import make_getter
from headrace.record import Change, RecordContext
from headrace.serdes import Serdes
from headrace.state.cache import RecordCache
from headrace.state.environment import StoreEnvironment
from headrace.state.memory import MemoryStore
from headrace.state.open import open_store
from headrace.topology.stores import StoreKind, StoreSpec
from headrace.topology.views import View

HOUR = 3_600_000


class Running:
    """An operator in a task of its own: what it forwards and drops can be read."""

    node = "NODE"
    task_partition = 0

    def __init__(self, *specs: StoreSpec, cached: bool = False) -> None:
        cache = RecordCache(1_000_000) if cached else None
        self.stores = {s.name: open_store(s, MemoryStore(), StoreEnvironment(cache=cache)) for s in specs}
        self.metadata: dict[str, int] = {}
        self.output: list[tuple[Any, Any, int]] = []
        self.headers: list[Any] = []
        self.dropped: list[str] = []
        self.sent_to: list[tuple[str, Any, Any]] = []
        self.operator: Any = None

    def start(self, operator: Operator) -> Running:
        self.operator = operator
        operator.forward = self._forward
        operator.init(self)  # type: ignore[arg-type]
        return self

    def process(self, key: Any, value: Any, timestamp: int = 0, **carried: Any) -> list[tuple[Any, Any, int]]:
        """What the operator forwards for one record: key, value, timestamp."""
        self.output.clear()
        self.operator.process(key, value, RecordContext(timestamp, **carried))
        return list(self.output)

    def update(
        self, key: Any, new: Any, timestamp: int = 0, *, old: Any = None, is_latest: bool = True
    ) -> list[tuple[Any, Any, int]]:
        """The same for a table update."""
        return self.process(key, Change(new, old, is_latest), timestamp)

    def flush(self) -> list[tuple[Any, Any, int]]:
        self.output.clear()
        for store in self.stores.values():
            store.flush()
        return list(self.output)

    def put(self, store: str, key: Any, value: Any, timestamp: int) -> None:
        self.stores[store].put(key, value, timestamp, RecordContext(timestamp))

    def _forward(self, key: Any, value: Any, context: RecordContext) -> None:
        self.output.append((key, value, context.timestamp))
        self.headers.append(context.headers)

    def store(self, name: str) -> Any:
        return self.stores[name]

    def view(self, view: View) -> ValueGetter:
        return make_getter(view, self)  # type: ignore[arg-type]

    def forward_to(self, child: str) -> Forward:
        return lambda key, value, context: self.sent_to.append((child, key, value))

    def processor_context(self, current: Callable[[], RecordContext | None]) -> Any:
        return current

    def metadata_get(self, name: str) -> int | None:
        return self.metadata.get(name)

    def metadata_put(self, name: str, value: int) -> None:
        self.metadata[name] = value

    def drop(self, context: RecordContext, reason: str) -> None:
        self.dropped.append(reason)


def spec(name: str, kind: StoreKind = StoreKind.TIMESTAMPED_KEY_VALUE, **options: Any) -> StoreSpec:
    """A store of JSON by strings."""
    return StoreSpec(name, kind, Serdes.string(), Serdes.json(), caching=True, **options)


def key_values(name: str) -> StoreSpec:
    return spec(name)


def versions(name: str) -> StoreSpec:
    return spec(name, StoreKind.VERSIONED, retention_ms=HOUR)


def windows(name: str, size: int) -> StoreSpec:
    return spec(name, StoreKind.TIMESTAMPED_WINDOW, retention_ms=HOUR, window_size_ms=size)


def sessions(name: str) -> StoreSpec:
    return spec(name, StoreKind.SESSION, retention_ms=HOUR)
