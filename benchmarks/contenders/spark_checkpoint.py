"""How far hand-written PySpark is: it commits no offsets to Kafka, its checkpoint has them."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.offsets import Offsets


class CheckpointOffsets:
    """The offsets of the last batch that a checkpoint has as committed, by topic and partition."""

    def __init__(self, checkpoint: Path, offsets: Offsets) -> None:
        self._checkpoint = checkpoint
        self._offsets = offsets

    def committed(self, topic: str) -> list[int]:
        """The offset of each partition up to which the query is through; a topic read as a snapshot is read first."""
        ends = self._offsets.ends(topic)
        last = self._last_batch()
        if last is None:
            return [0] * len(ends)
        found = committed_offsets((self._checkpoint / "offsets" / str(last)).read_text()).get(topic)
        return ends if found is None else [found.get(number, 0) for number in range(len(ends))]

    def ends(self, topic: str) -> list[int]:
        """The end of each partition."""
        return self._offsets.ends(topic)

    def close(self) -> None:
        """Lets go of the connection."""
        self._offsets.close()

    def _last_batch(self) -> int | None:
        commits = self._checkpoint / "commits"
        numbers = [int(path.name) for path in commits.glob("*") if path.name.isdigit()] if commits.exists() else []
        return max(numbers, default=None)


def committed_offsets(text: str) -> dict[str, dict[int, int]]:
    """The offsets of a file of the offset log: a version, metadata, and a line for each source."""
    offsets: dict[str, dict[int, int]] = {}
    for line in text.splitlines()[2:]:
        if line.startswith("{"):
            for topic, partitions in json.loads(line).items():
                offsets[topic] = {int(number): offset for number, offset in partitions.items()}
    return offsets
