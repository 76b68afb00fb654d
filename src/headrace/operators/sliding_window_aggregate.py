"""aggregate, count and reduce in sliding windows.

A window exists for each distinct content: a record has one that ends with it (its left window) and one that starts
just after it (its right window), which is only kept once another record falls into it.
"""

from __future__ import annotations

from typing import Any

from headrace.operators.time_window import TimeWindowOperator
from headrace.operators.window_close import EXPIRED_WINDOW, NEVER
from headrace.record import RecordContext, ValueAndTimestamp
from headrace.topology.operations import SlidingWindowAggregate
from headrace.windowed import Window


class SlidingWindowAggregateOperator(TimeWindowOperator):
    """Aggregates each record in the windows that hold it, and makes the ones it brings about."""

    __slots__ = ("size_ms",)

    def __init__(self, operation: SlidingWindowAggregate) -> None:
        super().__init__(operation)
        self.size_ms = operation.windows.time_difference_ms

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        if key is None or value is None:
            self.ctx.drop(context, "null key or value")
            return
        timestamp = context.timestamp
        if timestamp > self.stream_time:
            self.stream_time = timestamp
        close_time = self.stream_time - self.grace_ms
        if timestamp + self.size_ms < close_time:
            self.ctx.drop(context, EXPIRED_WINDOW)
            return
        if timestamp < self.size_ms:
            # the final results wait for a later record here, as in Kafka Streams
            self._process_early(key, value, close_time, context)
            return
        self._process_backwards(key, value, close_time, context)
        if self.emit_on_close:
            self.emit_closed(close_time, context)

    def _process_backwards(self, key: Any, value: Any, close_time: int, context: RecordContext) -> None:
        """Goes back over the windows from the record's right window to the last one that ended before the record."""
        timestamp = context.timestamp
        size = self.size_ms
        starts: set[int] = set()
        left: ValueAndTimestamp | None = None
        right: ValueAndTimestamp | None = None
        has_left = has_right = False
        previous: int | None = None
        for start, stored in self.store.fetch(key, max(0, timestamp - 2 * size), timestamp + 1, reverse=True):
            starts.add(start)
            end = start + size
            if start == timestamp + 1:
                has_right = True
            elif end > timestamp:
                if right is None:
                    right = stored
                self._update(key, value, start, stored, close_time, context)
            elif end == timestamp:
                has_left = True
                self._update(key, value, start, stored, close_time, context)
                if stored.timestamp >= timestamp:
                    return  # a record of the same time has made all windows already
                previous = stored.timestamp
            else:
                left = stored
                previous = stored.timestamp
                break

        if previous is not None and previous + 1 not in starts and previous + 1 + size >= timestamp:
            self._start(key, value, previous + 1, close_time, context)
        if not has_left:
            start = timestamp - size
            if left is not None and previous is not None and previous >= start:
                self._update(key, value, start, ValueAndTimestamp(left.value, timestamp), close_time, context)
            else:
                self._start(key, value, start, close_time, context)
        if not has_right and right is not None and right.timestamp > timestamp:
            self._keep_right(key, right, context)

    def _process_early(self, key: Any, value: Any, close_time: int, context: RecordContext) -> None:
        """For a record so early that its left window would start before 0: the window from 0 stands in for it."""
        timestamp = context.timestamp
        starts: set[int] = set()
        first: ValueAndTimestamp | None = None
        right: ValueAndTimestamp | None = None
        has_right = False
        previous: int | None = None
        for start, stored in self.store.fetch(key, 0, timestamp + 1):
            starts.add(start)
            if start == 0:
                first = stored
                if stored.timestamp < timestamp:
                    previous = stored.timestamp
            elif start <= timestamp:
                right = stored
                self._update(key, value, start, stored, close_time, context)
            else:
                has_right = True

        if right is None and first is not None and first.timestamp > timestamp:
            right = first
        if not has_right and right is not None and right.timestamp > timestamp:
            self._keep_right(key, right, context)
        if previous is not None and previous + 1 not in starts:
            self._start(key, value, previous + 1, close_time, context)
        if first is None:
            self._start(key, value, 0, close_time, context)
        else:
            self._update(key, value, 0, first, close_time, context)

    def _start(self, key: Any, value: Any, start: int, close_time: int, context: RecordContext) -> None:
        """Makes a window that holds this record alone."""
        initial = ValueAndTimestamp(self.initializer(), context.timestamp)
        self._update(key, value, start, initial, close_time, context)

    def _update(
        self, key: Any, value: Any, start: int, stored: ValueAndTimestamp, close_time: int, context: RecordContext
    ) -> None:
        """Adds the record to what a window holds, unless the window is closed."""
        end = start + self.size_ms
        if end < close_time:
            self.ctx.drop(context, EXPIRED_WINDOW)
            return
        old, timestamp = stored
        if old is None or timestamp < context.timestamp:
            timestamp = context.timestamp
        new = self.aggregator(key, value, old)
        self.store.put(key, new, timestamp, start, context)
        if self.forwards:
            self.forward_update(key, Window(start, end), new, old, timestamp, context)

    def _keep_right(self, key: Any, right: ValueAndTimestamp, context: RecordContext) -> None:
        """Makes the record's right window, of what came after the record."""
        start = context.timestamp + 1
        self.store.put(key, right.value, right.timestamp, start, context)
        if self.forwards:
            self.forward_update(key, Window(start, start + self.size_ms), right.value, None, right.timestamp, context)

    def starts_to_emit(self, close_time: int, emitted_until: int) -> tuple[int, int] | None:
        last = close_time - self.size_ms - 1
        if last < 0:
            return None
        return 0 if emitted_until == NEVER else max(0, emitted_until - self.size_ms), last
