"""How far the final results of a windowed aggregation have been emitted."""

from __future__ import annotations

from headrace.operators.operator import OperatorContext

NEVER = -1
"""No window has been emitted yet, no record been seen."""


EXPIRED_WINDOW = "expired window"
"""Why a record that came after its window was closed is dropped."""


class EmittedUntil:
    """The close time up to which a store's windows were emitted, kept in the task's metadata by the store's name."""

    __slots__ = ("_ctx", "_store")

    def __init__(self, ctx: OperatorContext, store: str) -> None:
        self._ctx = ctx
        self._store = store

    @property
    def close_time(self) -> int:
        """The close time, `NEVER` before the first emission."""
        kept = self._ctx.metadata_get(self._store)
        return NEVER if kept is None else kept

    def advance_to(self, close_time: int) -> None:
        """Remembers that everything closed by then was emitted."""
        self._ctx.metadata_put(self._store, close_time)
