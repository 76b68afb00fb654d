"""What the last batches changed, at hand on every executor.

On a cluster a task may run on another executor than in the batch before. A working copy that is a few batches behind
catches up with these changes; only where they do not reach back far enough does the driver send the whole state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pyspark import Broadcast, SparkContext

from headrace.spark.masters import is_local

_BATCHES = 16
_BYTES = 64 << 20


class Step(NamedTuple):
    """What leads from one version of a task's stores to the next."""

    before: str
    version: str
    changes: bytes


Steps = Mapping[str, Step]
"""By task, what one batch changed."""


class RecentChanges:
    """The changes of the last batches, each sent to an executor once."""

    def __init__(self, context: SparkContext, limit: int = _BYTES) -> None:
        self._context = context
        self._wanted = not is_local(context.master)
        self._limit = limit
        self._sent: deque[tuple[Broadcast[Steps], int]] = deque()

    @property
    def batches(self) -> tuple[Broadcast[Steps], ...]:
        """Oldest first."""
        return tuple(steps for steps, _ in self._sent)

    def add(self, before: Mapping[str, str], after: Mapping[str, str], changes: Mapping[str, bytes]) -> None:
        """Takes up a batch: by task, the versions before and after it and what lies in between."""
        if not (self._wanted and changes):
            return
        steps = {task: Step(before.get(task, ""), after[task], packed) for task, packed in changes.items()}
        size = sum(len(packed) for packed in changes.values())
        self._sent.append((self._context.broadcast(steps), size))
        while len(self._sent) > _BATCHES or (self._sent and sum(size for _, size in self._sent) > self._limit):
            forgotten, _ = self._sent.popleft()
            forgotten.destroy()


def way(batches: Sequence[Broadcast[Steps]], task: str, start: str, end: str) -> list[bytes] | None:
    """The changes that lead a task from one version to another, in order; None where they are not at hand."""
    found: list[bytes] = []
    for step in _backwards(batches, task):
        if step.version != end:
            continue
        found.append(step.changes)
        end = step.before
        if end == start:
            return found[::-1]
    return None


def _backwards(batches: Sequence[Broadcast[Steps]], task: str) -> Iterable[Step]:
    for batch in reversed(batches):
        step = batch.value.get(task)
        if step is not None:
            yield step
