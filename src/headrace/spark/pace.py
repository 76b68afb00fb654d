"""How many records a batch should have, learnt from the batches before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.errors import ConfigError

_MOST_RECORDS = 1_000_000
_FIRST_RECORDS = 100_000
"""How many records the first batch has, before anything is learnt."""
MOST_BYTES = 128 << 20
"""How much a batch reads at most: what it holds and what comes of it has to fit into memory."""
_LONGEST_SECONDS = 1.0
"""How long a batch should take: longer ones do not save any more, and what a task keeps in memory no longer fits into
the processor's cache."""
_FEWEST_RECORDS = 1_000
_LIMIT = "maxoffsetspertrigger"


class Pace:
    """Adapts the size of batches to how long the last ones took, and to the size of the records."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings` may have the name that Spark's Kafka source has for the limit, maxOffsetsPerTrigger."""
        given = {name.lower(): value for name, value in settings.items()}.get(_LIMIT)
        try:
            self._limit = _MOST_RECORDS if given is None else int(given)
        except ValueError:
            raise ConfigError(f"spark setting maxOffsetsPerTrigger must be a whole number, not {given!r}") from None
        if self._limit < 1:
            raise ConfigError(f"spark setting maxOffsetsPerTrigger must be at least 1, not {given!r}")
        self._by_time = _FIRST_RECORDS
        self.records = min(self._limit, self._by_time)
        """How many records the next batch should have at most."""

    def slow_down(self) -> None:
        """Has the next batch be smaller: the last one failed, and may have been too large to be committed in time."""
        self.records = min(self._limit, max(self.records // 2, _FEWEST_RECORDS))

    def learn(self, records: int, size: int, seconds: float) -> None:
        """Takes in what a batch of so many records and bytes took."""
        if not records:
            return
        by_size = max(1, records * MOST_BYTES // max(size, 1))
        # What a small batch takes says little of what a large one would, unless no more was allowed.
        if records >= min(_FEWEST_RECORDS, self._by_time // 2):
            self._by_time = max(int(records / max(seconds, 0.001) * _LONGEST_SECONDS), _FEWEST_RECORDS)
        self.records = min(self._limit, by_size, self._by_time)
