"""The stores of a task: opened in the topology's order, and flushed in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace.config import StreamsConfig
from headrace.errors import HeadraceError, ProcessingFailed, StoreError
from headrace.record import RecordContext
from headrace.state.cache import RecordCache
from headrace.state.environment import Log, StoreEnvironment
from headrace.state.open import open_store
from headrace.state.port import BackendStore
from headrace.task.defaults import DefaultSerdes
from headrace.task.errors import ErrorDesk
from headrace.topology.nodes import Node, ProcessorNode
from headrace.topology.stores import StoreSpec

_MOST_FLUSHES = 1_000
"""How often a task flushes for what processors have put while it flushed."""

OrderedStores = Callable[[StoreSpec], BackendStore]
"""Gives the place where a store keeps its bytes."""


class TaskStores:
    """Opens the stores that the nodes of a task use."""

    def __init__(
        self,
        specs: Mapping[str, StoreSpec],
        nodes: Mapping[str, Node],
        ordered: OrderedStores,
        config: StreamsConfig,
        application_id: str,
        changelog: Callable[[str], Log],
        errors: ErrorDesk,
    ) -> None:
        self._application_id = application_id
        self._changelog = changelog
        self._errors = errors
        cache = RecordCache(config.cache_max_bytes) if config.cache_max_bytes > 0 else None
        serdes = DefaultSerdes(config)
        self.specs: dict[str, StoreSpec] = {}
        """The stores with all their serdes."""
        self._stores: dict[str, Any] = {}
        users = first_users(nodes)
        for name, spec in specs.items():
            if name not in users:
                continue
            self.specs[name] = spec = serdes.of_store(spec, users[name])
            environment = StoreEnvironment(
                log=self._log_of(spec), cache=None if spec.is_global else cache, dropped=self._dropped_of(name)
            )
            self._stores[name] = open_store(spec, ordered(spec), environment)
        self._local = tuple((name, store) for name, store in self._stores.items() if not self.specs[name].is_global)

    def __getitem__(self, name: str) -> Any:
        found = self._stores.get(name)
        if found is None:
            raise StoreError(f"The task has no store {name}; its stores: {', '.join(self._stores) or 'none'}")
        return found

    def flush(self, *, closing: bool = False) -> None:
        """Lets through what the caches hold back, store by store; an error is raised after the last one.

        `closing` says that the stores are closed next: there is no later flush for what is put meanwhile.
        """
        self._flush(self._local, closing)
        if not closing:
            return
        for _ in range(_MOST_FLUSHES):
            held = [(name, store) for name, store in self._local if store.holds_back]
            if not held:
                return
            self._flush(held, closing)
        names = ", ".join(name for name, _ in held)
        raise StoreError(
            f"Whenever results are passed on at a commit, more is put into store {names}, and that for ever: a "
            "processor changes the store that its own input comes from"
        )

    @staticmethod
    def _flush(stores: Iterable[tuple[str, Any]], closing: bool) -> None:
        first: Exception | None = None
        for name, store in stores:
            try:
                store.flush_and_forget() if closing else store.flush()
            except Exception as error:
                first = first or _flush_error(name, error)
        if first is not None:
            raise first

    def flush_global(self) -> None:
        """Has the global stores keep what they must know when they are opened again."""
        for name, spec in self.specs.items():
            if spec.is_global:
                self._stores[name].flush()

    def close(self) -> None:
        """Closes all stores."""
        for store in self._stores.values():
            store.close()

    def _log_of(self, spec: StoreSpec) -> Log | None:
        if spec.is_global or not spec.logging or spec.changelog_topic is not None:
            return None
        return self._changelog(f"{self._application_id}-{spec.name}-changelog")

    def _dropped_of(self, name: str) -> Callable[[RecordContext, str], None]:
        return lambda context, reason: self._errors.drop(name, context, reason)


def first_users(nodes: Mapping[str, Node]) -> dict[str, ProcessorNode]:
    """By store, the first node that uses it."""
    users: dict[str, ProcessorNode] = {}
    for node in nodes.values():
        if isinstance(node, ProcessorNode):
            for store in node.stores:
                users.setdefault(store, node)
    return users


def _flush_error(store: str, error: Exception) -> Exception:
    if isinstance(error, HeadraceError):
        return error
    failed = ProcessingFailed(f"Failed to flush the cache of store {store}: {type(error).__name__}: {error}")
    failed.__cause__ = error
    return failed
