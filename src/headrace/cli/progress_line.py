"""The one line that tells how an application does."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.spark.progress import BatchProgress

_RATE_SECONDS = 10.0
_MOST_STORES = 4


class ProgressLine:
    """Adds up what batches report."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._recent: deque[tuple[float, int]] = deque()
        self._last: BatchProgress | None = None
        self._dropped: dict[str, int] = {}
        self.batches = 0
        self.records = 0
        self.outputs = 0
        self.lag: int | None = None

    def add(self, progress: BatchProgress) -> None:
        """Takes in a batch."""
        self._recent.append((self._clock(), progress.records))
        self._last = progress
        self.batches += 1
        self.records += progress.records
        self.outputs += progress.outputs
        for reason, count in progress.dropped.items():
            self._dropped[reason] = self._dropped.get(reason, 0) + count

    @property
    def rate(self) -> float:
        """Records a second, over the last ten."""
        now = self._clock()
        while self._recent and self._recent[0][0] < now - _RATE_SECONDS:
            self._recent.popleft()
        seconds = min(_RATE_SECONDS, max(now - self._started, 1.0))
        return sum(records for _, records in self._recent) / seconds

    def text(self, state: str) -> str:
        """The line as of now."""
        parts = [state, _plural(self.records, "record"), _rate(self.rate)]
        if self._last is not None:
            parts.append(f"batch {self._last.batch} in {self._last.seconds:.2f} s")
        parts.append("lag ?" if self.lag is None else f"lag {self.lag:,}")
        if self._dropped:
            parts.append(f"{sum(self._dropped.values()):,} dropped")
        if self._last is not None and self._last.stores:
            parts.append(_stores(self._last.stores))
        return " | ".join(parts)

    def totals(self) -> str:
        """The last line."""
        took = self._clock() - self._started
        totals = (
            f"{_plural(self.records, 'record')} in, {self.outputs:,} out, "
            f"in {self.batches:,} {'batch' if self.batches == 1 else 'batches'}, {took:.0f} s"
        )
        if self._dropped:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self._dropped.items()))
            totals += f"; dropped: {reasons}"
        return totals


def _rate(rate: float) -> str:
    return f"{rate:,.1f} records/s" if 0 < rate < 10 else f"{rate:,.0f} records/s"


def _stores(stores: Mapping[str, int]) -> str:
    shown = ", ".join(f"{name} {count:,}" for name, count in list(stores.items())[:_MOST_STORES])
    more = len(stores) - _MOST_STORES
    return f"stores {shown}" + (f" and {more} more" if more > 0 else "")


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
