"""Stream–stream joins: each side keeps its records for the other and looks up the other's."""

from __future__ import annotations

from typing import Any

from headrace.duration import MAX_MILLIS
from headrace.operators.operator import Operator, OperatorContext
from headrace.record import RecordContext
from headrace.topology.operations import JoinWindowWrite, Side, StreamStreamJoin


class TimeTracker:
    """The stream time that both sides of a join share, and the earliest record that may still wait for a partner."""

    __slots__ = ("min_time", "stream_time")

    def __init__(self) -> None:
        self.stream_time = -1
        self.min_time = MAX_MILLIS


class JoinWindowWriteOperator(Operator):
    """Passes each record on to the join, then keeps it for the other side.

    The record joins before it is kept, so a record of a stream joined with itself does not find itself twice.
    """

    __slots__ = ("_store", "_window")

    def __init__(self, operation: JoinWindowWrite) -> None:
        self._store = operation.store

    def init(self, ctx: OperatorContext) -> None:
        self._window = ctx.store(self._store)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        self.forward(key, value, context)
        if key is not None:
            self._window.put(key, value, context.timestamp, context)


class StreamStreamJoinOperator(Operator):
    """Joins a record of one side with the other side's records in the window.

    A record without a partner that is a result of its own waits in the outer store until its window and
    the grace period have passed: only then is it certain that it finds none.
    """

    __slots__ = (
        "_after",
        "_before",
        "_ctx",
        "_grace",
        "_is_left",
        "_joiner",
        "_left_look_back",
        "_operation",
        "_other",
        "_outer",
        "_right_look_back",
        "_time",
        "_waiting",
    )

    _time: TimeTracker

    def __init__(self, operation: StreamStreamJoin) -> None:
        windows = operation.windows
        self._operation = operation
        self._is_left = operation.side is Side.LEFT
        self._joiner = operation.joiner
        self._outer = operation.outer
        self._grace = windows.grace_ms
        self._before, self._after = windows.before_ms, windows.after_ms
        if not self._is_left:
            self._before, self._after = self._after, self._before
        self._left_look_back = windows.after_ms + windows.grace_ms
        self._right_look_back = windows.before_ms + windows.grace_ms

    def init(self, ctx: OperatorContext) -> None:
        operation = self._operation
        self._ctx = ctx
        self._other = ctx.store(operation.other_store)
        self._waiting = None if operation.outer_store is None else ctx.store(operation.outer_store)
        self._time = ctx.shared(operation.time_tracker, TimeTracker)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        timestamp = context.timestamp
        time = self._time
        if timestamp > time.stream_time:
            time.stream_time = timestamp
        if key is None or value is None:
            if self._outer and value is not None:
                self.forward(key, self._alone(key, value, self._is_left), context)
            else:
                self._ctx.drop(context, "null key or value")
            return

        waiting = self._waiting
        if waiting is not None and timestamp == time.stream_time:
            self._emit_unjoined(waiting, context)

        latest = timestamp + self._after
        if latest < 0:
            latest = 0
        joiner, is_left, forward = self._joiner, self._is_left, self.forward
        joined = False
        found = self._other.windows_of(key, timestamp - self._before, latest)
        for other_timestamp, other in found:
            joined = True
            if waiting is not None:
                waiting.delete_if_present(other_timestamp, not is_left, key, context)
            result = joiner(key, value, other) if is_left else joiner(key, other, value)
            forward(key, result, context.at(timestamp if timestamp > other_timestamp else other_timestamp))

        if self._outer and not joined:
            if waiting is None or latest < time.stream_time:
                forward(key, self._alone(key, value, is_left), context)
            else:
                time.min_time = min(time.min_time, timestamp)
                waiting.put(timestamp, is_left, key, value, context)

    def snapshot(self) -> dict[str, int]:
        """What the join must remember across restarts; the left side answers for both."""
        if not self._is_left:
            return {}
        return {"stream_time": self._time.stream_time, "min_time": self._time.min_time}

    def restore(self, snapshot: dict[str, int]) -> None:
        """Continues from a snapshot."""
        if snapshot:
            self._time.stream_time = snapshot["stream_time"]
            self._time.min_time = snapshot["min_time"]

    def _alone(self, key: Any, value: Any, is_left: bool) -> Any:
        return self._joiner(key, value, None) if is_left else self._joiner(key, None, value)

    def _emit_unjoined(self, waiting: Any, context: RecordContext) -> None:
        """Emits the waiting records of both sides whose windows have closed, earliest first."""
        time = self._time
        stream_time = time.stream_time
        if time.min_time + self._after + self._grace >= stream_time:
            return
        time.min_time = MAX_MILLIS
        left_open = right_open = False
        emitted: tuple[int, bool, Any] | None = None
        for timestamp, is_left, key, value in waiting.all():
            time.min_time = timestamp
            if left_open and right_open:
                break
            if timestamp + (self._left_look_back if is_left else self._right_look_back) >= stream_time:
                left_open = left_open or is_left
                right_open = right_open or not is_left
                continue
            self.forward(key, self._alone(key, value, is_left), context.at(timestamp))
            # Records of the same key, side and time are one entry: it goes when all of them are out.
            if emitted is not None and emitted != (timestamp, is_left, key):
                waiting.delete(*emitted, context)
            emitted = (timestamp, is_left, key)
        if emitted is not None:
            waiting.delete(*emitted, context)
