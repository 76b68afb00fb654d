"""Which clock a schedule follows."""

from __future__ import annotations

from enum import Enum


class PunctuationType(Enum):
    """Which clock a schedule follows."""

    STREAM_TIME = "stream time"
    """The largest timestamp seen so far: it moves with the records alone."""
    WALL_CLOCK_TIME = "wall clock time"
