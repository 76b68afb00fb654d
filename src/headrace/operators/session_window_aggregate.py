"""aggregate, count and reduce in session windows."""

from __future__ import annotations

from typing import Any

from headrace.operators.forwarding import sessions_forward_at_once
from headrace.operators.operator import Operator, OperatorContext
from headrace.operators.window_close import EXPIRED_WINDOW, NEVER, EmittedUntil
from headrace.record import NO_HEADERS, Change, RecordContext
from headrace.topology.operations import SessionWindowAggregate
from headrace.windowed import Window, Windowed
from headrace.windows import EmitStrategy


class SessionWindowAggregateOperator(Operator):
    """Merges each record with the sessions of its key that it touches."""

    __slots__ = (
        "aggregator",
        "ctx",
        "emit_on_close",
        "emitted",
        "forwards",
        "gap_ms",
        "grace_ms",
        "initializer",
        "merger",
        "send_old",
        "store",
        "store_name",
        "stream_time",
    )

    ctx: OperatorContext
    store: Any
    emitted: EmittedUntil

    def __init__(self, operation: SessionWindowAggregate) -> None:
        self.store_name = operation.store
        self.initializer = operation.initializer
        self.aggregator = operation.aggregator
        self.merger = operation.merger
        self.send_old = operation.send_old
        self.emit_on_close = operation.emit is EmitStrategy.ON_WINDOW_CLOSE
        self.gap_ms = operation.windows.gap_ms
        self.grace_ms = operation.windows.grace_ms
        self.forwards = False
        self.stream_time = NEVER

    def init(self, ctx: OperatorContext) -> None:
        self.ctx = ctx
        self.store = ctx.store(self.store_name)
        if self.emit_on_close:
            self.emitted = EmittedUntil(ctx, self.store_name)
        else:
            self.forwards = sessions_forward_at_once(self.store, self.forward, self.send_old)

    def snapshot(self) -> dict[str, int]:
        """What must outlive the operator: the stream time it has seen."""
        return {"stream_time": self.stream_time}

    def restore(self, snapshot: dict[str, int]) -> None:
        """Takes up where a snapshot left off."""
        self.stream_time = snapshot["stream_time"]

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        if key is None:
            self.ctx.drop(context, "null key")
            return
        timestamp = context.timestamp
        if timestamp > self.stream_time:
            self.stream_time = timestamp
        close_time = self.stream_time - self.grace_ms - self.gap_ms
        store = self.store
        start = end = timestamp
        aggregate = self.initializer()
        sessions = list(store.find_sessions(key, timestamp - self.gap_ms, timestamp + self.gap_ms))
        for windowed, session_aggregate in sessions:
            aggregate = self.merger(key, aggregate, session_aggregate)
            start = min(start, windowed.window.start)
            end = max(end, windowed.window.end)
        if end < close_time:
            self.ctx.drop(context, EXPIRED_WINDOW)
        else:
            if start != end:
                for windowed, session_aggregate in sessions:
                    store.remove(windowed, context)
                    if self.forwards:
                        self._forward_update(windowed, None, session_aggregate, context)
            aggregate = self.aggregator(key, value, aggregate)
            merged = Windowed(key, Window(start, end))
            store.put(merged, aggregate, context)
            if self.forwards:
                self._forward_update(merged, aggregate, None, context)
        if self.emit_on_close:
            self._emit_closed(close_time, context)

    def _forward_update(self, windowed: Windowed[Any], new: Any, old: Any, context: RecordContext) -> None:
        change = Change(new, old if self.send_old else None)
        self.forward(windowed, change, context.carrying(windowed.window.end, NO_HEADERS))

    def _emit_closed(self, close_time: int, context: RecordContext) -> None:
        """Forwards the final results of the sessions that have closed since the last time, earliest first."""
        first_end, last_end = max(0, self.emitted.close_time), close_time - 1
        if last_end < first_end:
            return
        for windowed, aggregate in self.store.find_sessions_between(first_end, last_end):
            self.forward(windowed, Change(aggregate, None), context.at(windowed.window.end))
        self.emitted.advance_to(close_time)
