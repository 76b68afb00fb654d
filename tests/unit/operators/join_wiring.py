"""A task small enough for tests: operators one after the other over real stores in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.operators.operator import Forward, Operator, ValueGetter
from headrace.operators.views import make_getter
from headrace.record import RecordContext
from headrace.state.cache import RecordCache
from headrace.state.environment import StoreEnvironment
from headrace.state.memory import MemoryStore
from headrace.state.open import open_store
from headrace.topology.stores import StoreSpec
from headrace.topology.views import View

Logged = tuple[str, bytes, "bytes | None", "int | None"]


class Wiring:
    """The operators' context; remembers what was forwarded, dropped and logged."""

    node = "NODE"
    task_partition = 0

    def __init__(self, *specs: StoreSpec, cache: RecordCache | None = None) -> None:
        self.forwarded: list[tuple[Any, Any, int]] = []
        self.contexts: list[RecordContext] = []
        self.dropped: list[str] = []
        self.logged: list[Logged] = []
        self.bytes: dict[str, MemoryStore] = {spec.name: MemoryStore() for spec in specs}
        self.stores = {spec.name: self._open(spec, cache) for spec in specs}
        self._shared: dict[str, Any] = {}

    def wire(self, *operators: Operator) -> Forward:
        """Connects the operators to a chain whose results are remembered; the answer is its beginning."""
        forward: Forward = self.remember
        for operator in reversed(operators):
            operator.forward = forward
            operator.init(self)
            forward = operator.process
        return forward

    def remember(self, key: Any, value: Any, context: RecordContext) -> None:
        self.forwarded.append((key, value, context.timestamp))
        self.contexts.append(context)

    def taken(self) -> list[tuple[Any, Any, int]]:
        """What was forwarded since the last time."""
        taken, self.forwarded = self.forwarded, []
        return taken

    def restart(self) -> None:
        """Forgets what operators share; the stores stay."""
        self._shared.clear()

    def store(self, name: str) -> Any:
        return self.stores[name]

    def view(self, view: View) -> ValueGetter:
        return make_getter(view, self)

    def shared(self, name: str, factory: Callable[[], Any]) -> Any:
        return self._shared.setdefault(name, factory())

    def forward_to(self, child: str) -> Forward:
        raise NotImplementedError

    def stream_time(self) -> int:
        raise NotImplementedError

    def system_time(self) -> int:
        return 0

    def drop(self, context: RecordContext, reason: str) -> None:
        self.dropped.append(reason)

    def _open(self, spec: StoreSpec, cache: RecordCache | None) -> Any:
        def log(key: bytes, value: bytes | None, timestamp: int | None, headers: Any) -> None:
            self.logged.append((spec.name, key, value, timestamp))

        return open_store(spec, self.bytes[spec.name], StoreEnvironment(log, cache, self.drop))


def at(timestamp: int) -> RecordContext:
    """The context of a record of that time."""
    return RecordContext(timestamp, topic="input", partition=0, offset=0)
