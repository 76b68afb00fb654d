"""Opens a store: the kind of a spec decides which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.state.environment import StoreEnvironment
from headrace.state.key_value import KeyValueStore, TimestampedKeyValueStore
from headrace.state.outer_join import OuterJoinStore
from headrace.state.port import BackendStore
from headrace.state.session import SessionStore
from headrace.state.store import Store
from headrace.state.stream_buffer import StreamBuffer
from headrace.state.subscription import SubscriptionStore
from headrace.state.suppress_buffer import SuppressBuffer
from headrace.state.versioned import VersionedStore
from headrace.state.window import TimestampedWindowStore, WindowStore
from headrace.topology.stores import StoreKind, StoreSpec

_STORES: dict[StoreKind, Callable[[StoreSpec, BackendStore, StoreEnvironment], Store]] = {
    StoreKind.KEY_VALUE: KeyValueStore,
    StoreKind.TIMESTAMPED_KEY_VALUE: TimestampedKeyValueStore,
    StoreKind.VERSIONED: VersionedStore,
    StoreKind.WINDOW: WindowStore,
    StoreKind.TIMESTAMPED_WINDOW: TimestampedWindowStore,
    StoreKind.SESSION: SessionStore,
    StoreKind.SUPPRESS_BUFFER: SuppressBuffer,
    StoreKind.STREAM_BUFFER: StreamBuffer,
    StoreKind.OUTER_JOIN: OuterJoinStore,
    StoreKind.SUBSCRIPTION: SubscriptionStore,
}


def open_store(spec: StoreSpec, ordered: BackendStore, environment: StoreEnvironment) -> Any:
    """The typed store of the spec over the ordered one, which may have entries already."""
    return _STORES[spec.kind](spec, ordered, environment)
