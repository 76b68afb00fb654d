"""Builds a store from its changelog.

The entries come from the records. The facts that a store keeps beside them (stream time, numbers, sizes) are derived
as far as the records tell; an executor that has kept them puts its own in their place with `meta_put`. Then the store
is opened as any other, which also drops what is expired at the stream time of these facts.

From a whole changelog the facts are exact. Once it is compacted, the tombstones and older records that are gone may
have been the only ones to tell:

- the stream time of a window, session or stream buffer store, and the clock of a time to live,
- the number of the last duplicate in a window store, and of the last record in a stream buffer.

A versioned store needs every record of the history it retains; its changelog has a `min.compaction.lag.ms` for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.record import Headers
from headrace.serdes import Serdes
from headrace.state.changes import StoreChanges
from headrace.state.environment import StoreEnvironment
from headrace.state.open import open_store
from headrace.state.overlay import OrderedReader, OverlayStore
from headrace.state.port import BackendStore
from headrace.topology.stores import StoreSpec

ChangelogRecord = tuple[bytes, "bytes | None", int, Headers]
"""Key, value, timestamp, headers. Only a suppress buffer looks at headers; others may be given none."""

_BYTES = Serdes.bytes()


def rebuild(spec: StoreSpec, ordered: BackendStore, records: Iterable[ChangelogRecord]) -> None:
    """Brings records of a store's changelog, in their order, into an ordered store.

    It may have entries and facts of earlier records already, so a changelog can be taken in pieces. Serdes are not
    needed, and nothing is logged: what has outlived a time to live stays until the opened store removes it.
    """
    store = open_store(of_bytes(spec), ordered, StoreEnvironment())
    restore = store.restore
    for key, value, timestamp, headers in records:
        restore(key, value, timestamp, headers)
    store.save_facts()


def rebuilt_changes(spec: StoreSpec, base: OrderedReader, records: Iterable[ChangelogRecord]) -> StoreChanges:
    """What the records change in a store that is only read."""
    overlay = OverlayStore(base)
    rebuild(spec, overlay, records)
    return replace(overlay.changes(), facts=overlay.facts)


def of_bytes(spec: StoreSpec) -> StoreSpec:
    """The spec for keys and values as bytes."""
    return replace(spec, key=_BYTES, value=_BYTES, other=_BYTES)
