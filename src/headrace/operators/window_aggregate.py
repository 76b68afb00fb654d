"""aggregate, count and reduce in tumbling, hopping and unlimited windows."""

from __future__ import annotations

from typing import Any

from headrace.duration import MAX_MILLIS
from headrace.operators.time_window import TimeWindowOperator
from headrace.operators.window_close import EXPIRED_WINDOW, NEVER
from headrace.record import RecordContext
from headrace.topology.operations import WindowAggregate
from headrace.windowed import Window
from headrace.windows import TimeWindows, UnlimitedWindows


class WindowAggregateOperator(TimeWindowOperator):
    """Aggregates each record in all windows it belongs to, earliest first."""

    __slots__ = ("is_tumbling", "size_ms", "starts_for")

    def __init__(self, operation: WindowAggregate) -> None:
        super().__init__(operation)
        windows = operation.windows
        self.starts_for = windows.starts_for
        self.size_ms = windows.size_ms
        self.is_tumbling = isinstance(windows, TimeWindows) and windows.advance_ms == windows.size_ms
        if isinstance(windows, UnlimitedWindows):
            self.size_ms = MAX_MILLIS - windows.start_on

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        if key is None:
            self.ctx.drop(context, "null key")
            return
        timestamp = context.timestamp
        if timestamp > self.stream_time:
            self.stream_time = timestamp
        close_time = self.stream_time - self.grace_ms
        store = self.store
        starts = (timestamp // self.size_ms * self.size_ms,) if self.is_tumbling else self.starts_for(timestamp)
        for start in starts:
            end = start + self.size_ms
            if end <= close_time:
                self.ctx.drop(context, EXPIRED_WINDOW)
                continue
            if store.cached:
                store.revise(key, value, start, context, self.initializer, self.aggregator)
                continue
            new_timestamp = timestamp
            stored = store.fetch_one(key, start)
            if stored is None:
                old = self.initializer()
            else:
                old, old_timestamp = stored
                if old_timestamp > timestamp:
                    new_timestamp = old_timestamp
            new = self.aggregator(key, value, old)
            store.put(key, new, new_timestamp, start, context)
            if self.forwards:
                self.forward_update(key, Window(start, end), new, old, new_timestamp, context)
        if self.emit_on_close:
            self.emit_closed(close_time, context)

    def starts_to_emit(self, close_time: int, emitted_until: int) -> tuple[int, int] | None:
        last = close_time - self.size_ms
        if last < 0:
            return None
        if emitted_until == NEVER:
            return 0, last
        previous_last = max(0, emitted_until - self.size_ms)
        if self.starts_for(last) == self.starts_for(previous_last):
            return None
        return previous_last + 1, last
