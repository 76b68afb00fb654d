"""From `Materialized` to a store: names, serdes and retention as Kafka Streams chooses them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.dsl.options import Materialized
from headrace.duration import to_millis
from headrace.errors import TopologyError
from headrace.topology.naming import Names, check_name
from headrace.topology.serde_refs import SerdeRef
from headrace.topology.stores import StoreKind, StoreSpec
from headrace.windows import EmitStrategy, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

MaterializedOrName = Materialized | str


@dataclass(frozen=True)
class StoreOptions:
    """A `Materialized` with its store's name decided."""

    name: str
    queryable: bool
    key: SerdeRef
    value: SerdeRef
    options: Materialized

    @property
    def is_versioned(self) -> bool:
        """Whether earlier values are kept."""
        return self.options.history_retention is not None

    def with_serdes(self, key: SerdeRef, value: SerdeRef) -> StoreOptions:
        """The same with these serdes where none were given."""
        return replace(
            self,
            key=self.key if self.key is not None else key,
            value=self.value if self.value is not None else value,
        )


def as_materialized(materialized: MaterializedOrName | None) -> Materialized | None:
    """A bare name stands for `Materialized(name)`."""
    return Materialized(materialized) if isinstance(materialized, str) else materialized


def name_store(materialized: Materialized, names: Names, prefix: str) -> StoreOptions:
    """The options with the user's store name, or a generated one."""
    given = materialized.name
    name = names.store(prefix) if given is None else check_name(given, "store name")
    return StoreOptions(name, given is not None, materialized.key, materialized.value, materialized)


def key_value_store(store: StoreOptions) -> StoreSpec:
    """The store of a table."""
    options = store.options
    if options.retention is not None:
        raise TopologyError(
            f"store {store.name!r} has a retention, but is not windowed: use ttl= to let keys expire after a time"
        )
    if options.history_retention is not None:
        return StoreSpec(
            store.name,
            StoreKind.VERSIONED,
            store.key,
            store.value,
            retention_ms=to_millis(options.history_retention, f"history_retention of store {store.name!r}"),
            logging=options.logging,
        )
    return StoreSpec(
        store.name,
        StoreKind.TIMESTAMPED_KEY_VALUE,
        store.key,
        store.value,
        caching=options.caching,
        logging=options.logging,
        ttl_ms=None if options.ttl is None else to_millis(options.ttl, f"ttl of store {store.name!r}", minimum=1),
    )


def window_store(
    store: StoreOptions, windows: TimeWindows | UnlimitedWindows | SlidingWindows, emit: EmitStrategy
) -> StoreSpec:
    """The store of a windowed aggregation."""
    if isinstance(windows, SlidingWindows):
        size, least = windows.time_difference_ms, 2 * windows.time_difference_ms + windows.grace_ms
        caching = store.options.caching and emit is not EmitStrategy.ON_WINDOW_CLOSE
    else:
        size, least = windows.size_ms, windows.size_ms + windows.grace_ms
        caching = store.options.caching
    return StoreSpec(
        store.name,
        StoreKind.TIMESTAMPED_WINDOW,
        store.key,
        store.value,
        retention_ms=_retention(store, least, "window"),
        window_size_ms=size,
        time_ordered=emit is EmitStrategy.ON_WINDOW_CLOSE,
        caching=caching,
        logging=store.options.logging,
    )


def session_store(store: StoreOptions, windows: SessionWindows, emit: EmitStrategy) -> StoreSpec:
    """The store of a session aggregation."""
    return StoreSpec(
        store.name,
        StoreKind.SESSION,
        store.key,
        store.value,
        retention_ms=_retention(store, windows.gap_ms + windows.grace_ms, "session"),
        time_ordered=emit is EmitStrategy.ON_WINDOW_CLOSE,
        caching=store.options.caching and emit is not EmitStrategy.ON_WINDOW_CLOSE,
        logging=store.options.logging,
    )


def _retention(store: StoreOptions, least: int, what: str) -> int:
    options = store.options
    if options.ttl is not None or options.history_retention is not None:
        raise TopologyError(f"{what} store {store.name!r} takes retention=, not ttl= or history_retention=")
    if options.retention is None:
        return least
    given = to_millis(options.retention, f"retention of store {store.name!r}")
    if given < least:
        raise TopologyError(
            f"retention of {what} store {store.name!r} is {given} ms, but must be at least {least} ms: "
            "the size of the windows and their grace"
        )
    return given
