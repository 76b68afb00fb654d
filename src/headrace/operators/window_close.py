"""How far the final results of a windowed aggregation have been emitted."""

from __future__ import annotations

from typing import Any

NEVER = -1
"""No window has been emitted yet, no record been seen."""


class EmittedUntil:
    """The close time up to which a store's windows were emitted, kept in the task's metadata by the store's name."""

    __slots__ = ("_ctx", "_store", "close_time")

    def __init__(self, ctx: Any, store: str) -> None:
        self._ctx = ctx
        self._store = store
        kept: int | None = ctx.metadata_get(store)
        self.close_time = NEVER if kept is None else kept

    def is_before(self, close_time: int) -> bool:
        """Whether windows may have closed since."""
        return self.close_time == NEVER or self.close_time < close_time

    def advance_to(self, close_time: int) -> None:
        """Remembers that everything closed by then was emitted."""
        self.close_time = close_time
        self._ctx.metadata_put(self._store, close_time)
