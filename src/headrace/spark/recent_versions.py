"""The versions of the last commits, and where the changelogs ended with them.

On a cluster a task may run on another executor than in the batch before. A working copy that is a few batches behind
reads on in the changelogs from where its version ended. It may do so for a short time only: later, Kafka may have
removed the tombstones of keys that were deleted meanwhile, and they would come back.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping

from headrace.kafka.topics import Topics
from headrace.spark.layout import task_parts
from headrace.spark.worker import Recent

_VERSIONS = 32
_SECONDS = 600.0
"""Far less than tombstones stay in a topic (delete.retention.ms, a day)."""


class RecentVersions:
    """By task, its last versions."""

    def __init__(self, topics: Topics, changelogs: Mapping[int, Iterable[str]]) -> None:
        """`changelogs` are the topics by sub-topology."""
        self._topics = topics
        self._changelogs = {group: tuple(topics) for group, topics in changelogs.items()}
        self._known: dict[str, deque[tuple[float, str, dict[str, int]]]] = {}

    def add(self, versions: Mapping[str, str]) -> None:
        """Takes in the versions of the tasks that a commit has changed, before the next transaction begins."""
        places = {task: self._places(task) for task, version in versions.items() if version}
        ends = self._topics.ends([place for found in places.values() for place in found], committed=False)
        for task, found in places.items():
            known = self._known.setdefault(task, deque(maxlen=_VERSIONS))
            known.append((time.monotonic(), versions[task], {topic: ends[topic, number] for topic, number in found}))

    def of(self, tasks: Iterable[str]) -> dict[str, Recent]:
        """What a working copy of these tasks may go on from."""
        oldest = time.monotonic() - _SECONDS
        return {
            task: {version: ends for since, version, ends in self._known[task] if since > oldest}
            for task in tasks
            if task in self._known
        }

    def _places(self, task: str) -> list[tuple[str, int]]:
        group, partition = task_parts(task)
        return [(topic, partition) for topic in self._changelogs.get(group, ())]
