"""What a store is given by the task it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.record import Headers, RecordContext
from headrace.state.cache import RecordCache

Log = Callable[[bytes, "bytes | None", "int | None", Headers], None]
"""Writes a record to the store's changelog: key, value, timestamp (None: that of the clock), headers."""

Dropped = Callable[[RecordContext, str], None]
"""Counts a record that the store dropped, with the reason."""


@dataclass(frozen=True, slots=True)
class StoreEnvironment:
    """The changelog, the cache and the count of dropped records; None where there is none."""

    log: Log | None = None
    cache: RecordCache | None = None
    dropped: Dropped | None = None
