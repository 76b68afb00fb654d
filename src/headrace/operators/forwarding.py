"""Who passes a table's updates on: the operator at once, or the store's cache when it is flushed."""

from __future__ import annotations

from typing import Any

from headrace.operators.operator import Forward, nowhere
from headrace.record import Change, RecordContext, ValueAndTimestamp
from headrace.windowed import Windowed


def forwards_at_once(store: Any, forward: Forward, send_old: bool) -> bool:
    """Whether the operator itself forwards what it puts; if the store is cached, its flushes do that from now on.

    For key-value and window stores, whose values carry their time.
    """
    if not store.cached:
        return True

    def on_flush(
        key: Any, new: ValueAndTimestamp | None, old: ValueAndTimestamp | None, context: RecordContext
    ) -> None:
        old_value = None if old is None else old.value
        if new is None:
            forward(key, Change(None, old_value), context)
        else:
            forward(key, Change(new.value, old_value), context.at(new.timestamp))

    store.on_flush(None if forward is nowhere else on_flush, send_old)
    return False


def sessions_forward_at_once(store: Any, forward: Forward, send_old: bool) -> bool:
    """The same for session stores: the time of a session is its end."""
    if not store.cached:
        return True

    def on_flush(key: Windowed[Any], new: Any, old: Any, context: RecordContext) -> None:
        forward(key, Change(new, old), context.at(key.window.end))

    store.on_flush(None if forward is nowhere else on_flush, send_old)
    return False
