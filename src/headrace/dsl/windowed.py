"""Streams grouped by key and window."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace.dsl.grouped import AGGREGATE, REDUCE, KGroupedStream, check_aggregation, count_one, named_store, zero
from headrace.dsl.materialize import MaterializedOrName, StoreOptions, session_store, window_store
from headrace.errors import TopologyError
from headrace.serdes import Serde, Serdes
from headrace.topology.functions import check_arity
from headrace.topology.location import caller_location
from headrace.topology.operations import SessionWindowAggregate, SlidingWindowAggregate, WindowAggregate
from headrace.topology.serde_refs import SerdeRef, derived
from headrace.windows import EmitStrategy, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

if TYPE_CHECKING:
    from headrace.dsl.table import KTable

Function = Callable[..., Any]


def nothing() -> None:
    """Where a reduction begins."""


def aggregator_of(reducer: Function) -> Function:
    """A reducer as an aggregator that begins with nothing."""
    return lambda key, value, agg: value if agg is None else reducer(agg, value)


def windowed_key(key: SerdeRef, windows: TimeWindows | UnlimitedWindows | SlidingWindows) -> SerdeRef:
    """The serde of a window's key."""
    if key is None:
        return None
    size = windows.time_difference_ms if isinstance(windows, SlidingWindows) else windows.size_ms

    def derive(inner: Serde[Any]) -> Serde[Any]:
        return Serdes.windowed(inner, timedelta(milliseconds=min(size, _LONGEST)))

    return derived(derive, (key, "key"))


_LONGEST = timedelta.max // timedelta(milliseconds=1)


class TimeWindowedKStream:
    """A stream grouped by key and time, sliding or unlimited window."""

    def __init__(
        self,
        grouped: KGroupedStream,
        windows: TimeWindows | UnlimitedWindows | SlidingWindows,
        emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
    ) -> None:
        self._grouped = grouped
        self._windows = windows
        self._emit = emit

    def emit_strategy(self, strategy: EmitStrategy) -> TimeWindowedKStream:
        """The same with results on each update, or only when a window closes."""
        if strategy is EmitStrategy.ON_WINDOW_CLOSE and isinstance(self._windows, UnlimitedWindows):
            raise TopologyError(
                f"an unlimited window never closes: on_window_close cannot be used ({caller_location()})"
            )
        return TimeWindowedKStream(self._grouped, self._windows, strategy)

    def count(self, materialized: MaterializedOrName | None = None, name: str | None = None) -> KTable:
        """The number of records of each key and window."""
        burn = not isinstance(self._windows, SlidingWindows)
        store = named_store(self._grouped, materialized, AGGREGATE, burn_unnamed=burn)
        return self._build(store.with_serdes(self._grouped._key, Serdes.long()), AGGREGATE, name, zero, count_one)

    def reduce(
        self, reducer: Function, materialized: MaterializedOrName | None = None, name: str | None = None
    ) -> KTable:
        """The values of each key and window combined by `reducer(a, b)`."""
        check_arity(reducer, "reduce", caller_location(), "a, b")
        store = named_store(self._grouped, materialized, REDUCE).with_serdes(self._grouped._key, self._grouped._value)
        return self._build(store, REDUCE, name, nothing, aggregator_of(reducer))

    def aggregate(
        self,
        initializer: Function,
        aggregator: Function,
        materialized: MaterializedOrName | None = None,
        name: str | None = None,
    ) -> KTable:
        """The values of each key and window, from `initializer()` on, combined by `aggregator(k, v, agg)`."""
        check_aggregation(initializer, aggregator)
        store = named_store(self._grouped, materialized, AGGREGATE).with_serdes(self._grouped._key, None)
        return self._build(store, AGGREGATE, name, initializer, aggregator)

    def _build(
        self, store: StoreOptions, prefix: str, name: str | None, initializer: Function, aggregator: Function
    ) -> KTable:
        windows = self._windows
        node_name = self._grouped._graph.names.given_or(name, prefix)
        spec = window_store(store, windows, self._emit)
        operation: SlidingWindowAggregate | WindowAggregate
        if isinstance(windows, SlidingWindows):
            operation = SlidingWindowAggregate(store.name, windows, initializer, aggregator, self._emit)
        else:
            operation = WindowAggregate(store.name, windows, initializer, aggregator, self._emit)
        key = windowed_key(store.key, windows)
        return self._grouped._build(node_name, store, spec, operation, key, grace_ms=windows.grace_ms)


class SessionWindowedKStream:
    """A stream grouped by key and session."""

    def __init__(
        self, grouped: KGroupedStream, windows: SessionWindows, emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE
    ) -> None:
        self._grouped = grouped
        self._windows = windows
        self._emit = emit

    def emit_strategy(self, strategy: EmitStrategy) -> SessionWindowedKStream:
        """The same with results on each update, or only when a session closes."""
        return SessionWindowedKStream(self._grouped, self._windows, strategy)

    def count(self, materialized: MaterializedOrName | None = None, name: str | None = None) -> KTable:
        """The number of records of each key and session."""
        store = named_store(self._grouped, materialized, AGGREGATE, burn_unnamed=True)
        store = store.with_serdes(self._grouped._key, Serdes.long())
        return self._build(store, AGGREGATE, name, zero, count_one, lambda key, one, other: one + other)

    def reduce(
        self, reducer: Function, materialized: MaterializedOrName | None = None, name: str | None = None
    ) -> KTable:
        """The values of each key and session combined by `reducer(a, b)`."""
        check_arity(reducer, "reduce", caller_location(), "a, b")
        aggregator = aggregator_of(reducer)
        store = named_store(self._grouped, materialized, REDUCE).with_serdes(self._grouped._key, self._grouped._value)

        def merger(key: Any, one: Any, other: Any) -> Any:
            return aggregator(key, other, one)

        return self._build(store, REDUCE, name, nothing, aggregator, merger)

    def aggregate(
        self,
        initializer: Function,
        aggregator: Function,
        merger: Function,
        materialized: MaterializedOrName | None = None,
        name: str | None = None,
    ) -> KTable:
        """The values of each key and session; `merger(k, a, b)` joins two sessions that turn out to be one."""
        check_aggregation(initializer, aggregator)
        check_arity(merger, "aggregate merger", caller_location(), "k, a, b")
        store = named_store(self._grouped, materialized, AGGREGATE).with_serdes(self._grouped._key, None)
        return self._build(store, AGGREGATE, name, initializer, aggregator, merger)

    def _build(
        self,
        store: StoreOptions,
        prefix: str,
        name: str | None,
        initializer: Function,
        aggregator: Function,
        merger: Function,
    ) -> KTable:
        windows = self._windows
        node_name = self._grouped._graph.names.given_or(name, prefix)
        spec = session_store(store, windows, self._emit)
        operation = SessionWindowAggregate(store.name, windows, initializer, aggregator, merger, self._emit)
        key = session_key(store.key)
        grace_ms = windows.grace_ms + windows.gap_ms
        return self._grouped._build(node_name, store, spec, operation, key, grace_ms=grace_ms)


def session_key(key: SerdeRef) -> SerdeRef:
    """The serde of a session's key."""
    return None if key is None else derived(Serdes.session_windowed, (key, "key"))
