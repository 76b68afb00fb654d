"""Removes what was read from the internal topics between sub-topologies, as Kafka Streams does."""

from __future__ import annotations

import time
from collections.abc import Mapping

from headrace.kafka.topics import Topics
from headrace.spark.layout import Layout
from headrace.spark.tail import Place

INTERVAL_SECONDS = 30.0
"""How often; Kafka Streams has the same for `repartition.purge.interval.ms`."""


class Purge:
    """Has Kafka delete the records of internal topics once what came of them is committed."""

    def __init__(self, topics: Topics, layout: Layout) -> None:
        self._topics = topics
        self._internal = layout.looped | layout.spilling
        self._next = time.monotonic() + INTERVAL_SECONDS
        self._purged: dict[Place, int] = {}

    def follow(self, committed: Mapping[Place, int]) -> None:
        """Takes in how far the topics are read, now that it is committed."""
        if not self._internal or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + INTERVAL_SECONDS
        read = {place: offset for place, offset in committed.items() if place[0] in self._internal}
        self._topics.purge({place: offset for place, offset in read.items() if offset > self._purged.get(place, 0)})
        self._purged = read
