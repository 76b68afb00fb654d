"""Suppress: holds the updates of a table back, to emit fewer of them or only final ones."""

from __future__ import annotations

from typing import Any

from headrace.errors import BufferFullError
from headrace.operators.operator import Operator, OperatorContext
from headrace.record import Change, RecordContext
from headrace.topology.operations import Suppress


class SuppressOperator(Operator):
    """Keeps the latest update of each key until its time has passed, or the buffer is full."""

    __slots__ = (
        "_buffer",
        "_drops_tombstones",
        "_duration",
        "_emit_early",
        "_max_bytes",
        "_max_records",
        "_node",
        "_store",
        "_stream_time",
        "_until_window_close",
    )

    def __init__(self, operation: Suppress) -> None:
        self._store = operation.store
        self._duration = operation.duration_ms
        self._until_window_close = operation.until_window_close
        self._max_records = operation.max_records
        self._max_bytes = operation.max_bytes
        self._emit_early = operation.emit_early
        self._drops_tombstones = operation.safe_to_drop_tombstones
        self._stream_time = -1

    def init(self, ctx: OperatorContext) -> None:
        self._node = ctx.node
        self._buffer = ctx.store(self._store)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        buffer = self._buffer
        timestamp = context.timestamp
        if timestamp > self._stream_time:
            self._stream_time = timestamp
        buffer.put(key.window.end if self._until_window_close else timestamp, key, value, context)

        expiry = self._stream_time - self._duration
        if buffer.min_timestamp <= expiry:
            buffer.evict_while(lambda: buffer.min_timestamp <= expiry, self._emit)
        if self._is_over_capacity():
            if not self._emit_early:
                raise BufferFullError(
                    f"{self._node} buffer exceeded its max capacity. "
                    f"Currently [{buffer.num_records}/{self._max_records}] records "
                    f"and [{buffer.buffer_size}/{self._max_bytes}] bytes."
                )
            buffer.evict_while(self._is_over_capacity, self._emit)

    def snapshot(self) -> dict[str, int]:
        """What the operator must remember across restarts."""
        return {"stream_time": self._stream_time}

    def restore(self, snapshot: dict[str, int]) -> None:
        """Continues from a snapshot."""
        self._stream_time = snapshot["stream_time"]

    def _is_over_capacity(self) -> bool:
        buffer = self._buffer
        return bool(buffer.num_records > self._max_records or buffer.buffer_size > self._max_bytes)

    def _emit(self, key: Any, change: Change, context: RecordContext) -> None:
        if change.new is not None or not self._drops_tombstones:
            self.forward(key, change, context)
