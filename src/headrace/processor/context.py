"""What a processor can ask of the task it runs in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

from headrace.duration import to_millis
from headrace.errors import ConfigError, StreamsError
from headrace.processor.punctuation import PunctuationType
from headrace.record import Record, RecordContext, RecordMetadata

CurrentContext = Callable[[], "RecordContext | None"]
"""The context of the record being processed; None while there is none."""


class Schedule(Protocol):
    """A scheduled punctuation."""

    def cancel(self) -> None:
        """Ends the schedule."""
        ...


class ProcessorHost(Protocol):
    """The part of a task that stands behind the context of one node."""

    @property
    def node(self) -> str:
        """The name of the node."""
        ...

    @property
    def task_id(self) -> str:
        """Sub-topology and partition."""
        ...

    @property
    def application_id(self) -> str:
        """The application's id."""
        ...

    def user_store(self, name: str, current: CurrentContext) -> Any:
        """The store as users see it, if it is connected to the node."""
        ...

    def schedule(
        self, interval_ms: int, kind: PunctuationType, callback: Callable[[int], None], start_ms: int | None = None
    ) -> Schedule:
        """Calls the function at intervals."""
        ...

    def request_commit(self) -> None:
        """Asks for a commit soon."""
        ...

    def stream_time(self) -> int:
        """The largest timestamp the task has seen, -1 before the first record."""
        ...

    def system_time(self) -> int:
        """The wall clock in milliseconds."""
        ...

    def forward_to(self, child: str) -> Callable[[Any, Any, RecordContext], None]:
        """Passes records to one child only."""
        ...


class ProcessorContext:
    """What a processor can ask of the task it runs in."""

    __slots__ = ("_current", "_forward", "_host", "refusal")

    def __init__(
        self, host: ProcessorHost, current: CurrentContext, forward: Callable[[Any, Any, RecordContext], None]
    ) -> None:
        self._host = host
        self._current = current
        self._forward = forward
        self.refusal: str | None = None
        """Why `forward` is not allowed; None where it is."""

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Passes the record on to all children, or to the one of that name."""
        context = self._current()
        if self.refusal is not None:
            raise StreamsError(f"Node {self._host.node}: {self.refusal}")
        if context is None:
            raise StreamsError(
                f"Node {self._host.node}: forward() was called outside process() and outside a punctuation. "
                "The cause may be a processor that is shared: a supplier must return a new object each time."
            )
        if not isinstance(record, Record):
            raise StreamsError(
                f"Node {self._host.node}: forward() takes a Record, not {type(record).__name__}; "
                "make one with record.with_value(...) or Record(key, value, timestamp)"
            )
        timestamp = record.timestamp
        if timestamp < 0:
            raise StreamsError(f"Node {self._host.node}: Timestamp may not be negative. Got: {timestamp}")
        if timestamp != context.timestamp or record.headers is not context.headers:
            context = context.carrying(timestamp, tuple(record.headers))
        if child is None:
            self._forward(record.key, record.value, context)
        else:
            self._host.forward_to(child)(record.key, record.value, context)

    def state_store(self, name: str) -> Any:
        """The store of that name; it must be connected to the processor, or be a global one, which is read-only."""
        return self._host.user_store(name, self._current)

    def schedule(
        self,
        interval: timedelta,
        kind: PunctuationType,
        callback: Callable[[int], None],
        *,
        start_time: int | None = None,
    ) -> Schedule:
        """Calls `callback(timestamp)` each time the clock has moved by the interval, until the handle is cancelled.

        With `start_time` in milliseconds the calls are due at that time plus whole intervals.
        """
        if not isinstance(kind, PunctuationType):
            raise ConfigError(
                f"Node {self._host.node}: schedule() takes PunctuationType.STREAM_TIME or WALL_CLOCK_TIME, not {kind!r}"
            )
        if start_time is not None and start_time < 0:
            raise ConfigError(f"Node {self._host.node}: schedule() cannot start before 0, not {start_time}")
        interval_ms = to_millis(interval, f"Node {self._host.node}: the interval of schedule()", minimum=1)
        return self._host.schedule(interval_ms, kind, callback, start_time)

    def commit(self) -> None:
        """Asks for a commit soon."""
        self._host.request_commit()

    def current_stream_time_ms(self) -> int:
        """The largest timestamp the task has seen, -1 before the first record."""
        return self._host.stream_time()

    def current_system_time_ms(self) -> int:
        """The wall clock in milliseconds."""
        return self._host.system_time()

    @property
    def task_id(self) -> str:
        """Sub-topology and partition, such as 0_3."""
        return self._host.task_id

    @property
    def application_id(self) -> str:
        """The application's id."""
        return self._host.application_id

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the record being processed; None in init() and in punctuations."""
        context = self._current()
        if context is None or context.topic is None:
            return None
        return RecordMetadata(context.topic, context.partition, context.offset)


class FixedKeyProcessorContext(ProcessorContext):
    """The context of a processor that keeps the key of each record."""

    __slots__ = ("_key",)

    def __init__(
        self,
        host: ProcessorHost,
        current: CurrentContext,
        forward: Callable[[Any, Any, RecordContext], None],
        key: Callable[[], tuple[Any] | None],
    ) -> None:
        super().__init__(host, current, forward)
        self._key = key

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Passes the record on to all children, or to the one of that name; its key must be the input's."""
        held = self._key()
        if held is not None and record.key is not held[0] and record.key != held[0]:
            raise StreamsError(
                f"Node {self._host.node}: a FixedKeyProcessor cannot change the key of a record "
                f"from {held[0]!r} to {record.key!r}. Use KStream.process() if you need to change the key."
            )
        super().forward(record, child)
