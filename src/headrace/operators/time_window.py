"""What aggregations over time windows and over sliding windows have in common."""

from __future__ import annotations

from typing import Any

from headrace.operators.forwarding import forwards_at_once
from headrace.operators.operator import Operator, OperatorContext
from headrace.operators.window_close import NEVER, EmittedUntil
from headrace.record import Change, RecordContext
from headrace.topology.operations import SlidingWindowAggregate, WindowAggregate
from headrace.windowed import Window, Windowed
from headrace.windows import EmitStrategy


class TimeWindowOperator(Operator):
    """Keeps one aggregate a key and window, and emits it on each update or once its window is closed."""

    __slots__ = (
        "aggregator",
        "ctx",
        "emit_on_close",
        "emitted",
        "forwards",
        "grace_ms",
        "initializer",
        "send_old",
        "store",
        "store_name",
        "stream_time",
    )

    ctx: OperatorContext
    store: Any
    emitted: EmittedUntil

    def __init__(self, operation: WindowAggregate | SlidingWindowAggregate) -> None:
        self.store_name = operation.store
        self.initializer = operation.initializer
        self.aggregator = operation.aggregator
        self.send_old = operation.send_old
        self.emit_on_close = operation.emit is EmitStrategy.ON_WINDOW_CLOSE
        self.grace_ms = operation.windows.grace_ms
        self.forwards = False
        self.stream_time = NEVER

    def init(self, ctx: OperatorContext) -> None:
        self.ctx = ctx
        self.store = ctx.store(self.store_name)
        if self.emit_on_close:
            self.emitted = EmittedUntil(ctx, self.store_name)
        else:
            self.forwards = forwards_at_once(self.store, self.forward, self.send_old)

    def snapshot(self) -> dict[str, int]:
        """What must outlive the operator: the stream time it has seen."""
        return {"stream_time": self.stream_time}

    def restore(self, snapshot: dict[str, int]) -> None:
        """Takes up where a snapshot left off."""
        self.stream_time = snapshot["stream_time"]

    def emit_closed(self, close_time: int, context: RecordContext) -> None:
        """Forwards the final results of the windows that have closed since the last time, earliest first."""
        emitted_until = self.emitted.close_time
        if emitted_until != NEVER and emitted_until >= close_time:
            return
        starts = self.starts_to_emit(close_time, emitted_until)
        if starts is None:
            return
        first, last = starts
        for windowed, (value, timestamp) in self.store.fetch_all_by_time(first, last):
            self.forward(windowed, Change(value, None), context.at(timestamp))
        self.emitted.advance_to(close_time)

    def starts_to_emit(self, close_time: int, emitted_until: int) -> tuple[int, int] | None:
        """The first and the last start of windows to emit; None leaves the emission for a later record."""
        raise TypeError(f"{type(self).__name__} does not say which windows are closed")

    def forward_update(
        self, key: Any, window: Window, new: Any, old: Any, timestamp: int, context: RecordContext
    ) -> None:
        """Forwards an update of a window."""
        change = Change(new, old if self.send_old else None)
        self.forward(Windowed(key, window), change, context.at(timestamp))
