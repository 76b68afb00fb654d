"""Where a test driver stands between two records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.state.memory import MemoryStore


@dataclass
class DriverState:
    """What another driver of the same topology needs to go on from there."""

    stores: dict[str, MemoryStore]
    """By name. A store that is missing begins empty."""
    task: dict[str, Any]
    """The task's snapshot."""
    offsets: dict[str, int]
    """The next offset of each topic that is read."""
    wall_clock: int
