"""The contract of an operator, and what the task that runs it offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from headrace.record import RecordContext, ValueAndTimestamp
from headrace.topology.views import View

T = TypeVar("T")

Forward = Callable[[Any, Any, RecordContext], None]
"""Passes a key and a value on to the next nodes."""


def nowhere(key: Any, value: Any, context: RecordContext) -> None:
    """The end of the line: what a node without children forwards to."""


class ValueGetter(Protocol):
    """Finds the current value of a table, or the one it had."""

    @property
    def is_versioned(self) -> bool:
        """Whether `get_as_of` can look back."""
        ...

    def get(self, key: Any) -> ValueAndTimestamp | None:
        """The current value and its time."""
        ...

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        """The value at that time."""
        ...


class Cancellable(Protocol):
    """A scheduled punctuation."""

    def cancel(self) -> None:
        """Ends the schedule."""
        ...


class OperatorContext(Protocol):
    """What a task offers to its operators."""

    node: str
    """The name of the operator's node."""
    task_partition: int
    """The partition of the task."""

    def store(self, name: str) -> Any:
        """The typed store of that name."""
        ...

    def view(self, view: View) -> ValueGetter:
        """A getter for a table's values."""
        ...

    def shared(self, name: str, factory: Callable[[], T]) -> T:
        """The object that the operators of this task share under that name."""
        ...

    def forward_to(self, child: str) -> Forward:
        """Passes records to one child only."""
        ...

    def stream_time(self) -> int:
        """The largest timestamp the task has seen, -1 before the first record."""
        ...

    def system_time(self) -> int:
        """The wall clock in milliseconds."""
        ...

    def drop(self, context: RecordContext, reason: str) -> None:
        """Counts a record that is dropped, and logs it."""
        ...

    def metadata_get(self, name: str) -> int | None:
        """A number that the task keeps across restarts."""
        ...

    def metadata_put(self, name: str, value: int) -> None:
        """Keeps a number across restarts."""
        ...

    def processor_context(self, current: Callable[[], RecordContext | None]) -> Any:
        """The context that a user's own object sees; `current` gives the record being processed."""
        ...


class Operator:
    """What a node does to each record. `forward` is wired by the task before `init`."""

    __slots__ = ("forward",)

    forward: Forward

    def init(self, ctx: OperatorContext) -> None:
        """Fetches what the operator needs from the task: stores, views, schedules."""

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        """Handles one record."""
        raise TypeError(f"{type(self).__name__} does not process records")

    def close(self) -> None:
        """Releases what the operator holds."""

    def snapshot(self) -> dict[str, int]:
        """What the operator remembers between records; stores keep their own."""
        return {}

    def restore(self, snapshot: dict[str, int]) -> None:
        """Goes on where a snapshot was taken."""
