"""The key of a windowed result: a key and the window it fell into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A span of time in milliseconds; whether `end` belongs to it depends on the kind of window."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Windowed(Generic[K]):
    """A key together with its window."""

    key: K
    window: Window

    def __str__(self) -> str:
        return f"[{self.key}@{self.window.start}/{self.window.end}]"
