"""What travels in a batch: parcels of rows, for tasks and for the driver.

What tasks send is packed into parcels, each for one place and of one topic, so that neither a shuffle nor the way to
the driver is work for each record.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import msgspec

from headrace.spark.ranges import Row

DRIVER = -1
"""The destination of results."""
ANY_PARTITION = -1
"""Left to Kafka's partitioner."""
REPORT = "\x00report"
"""The topic of a row that carries a task's report."""

ROWS_IN_PARCEL = 500
"""How many rows are packed together: so few that they are still in the processor's cache."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Row]).decode


class Parcel(NamedTuple):
    """Rows of one topic for one task or for the driver, from one origin and in its order."""

    destination: int
    """The sub-topology they are for."""
    partition: int
    """The partition of the task they are for, or come from."""
    topic: str
    first: int
    """The number of the first row; of what is for the driver, that of the parcel: a shuffle does not keep the order."""
    rows: int
    """How many there are."""
    content: bytes

    def open(self) -> list[Row]:
        """The rows."""
        return _decode(self.content)


class ParcelWriter:
    """Collects the rows of each place and gives them out as parcels."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, int, str], list[Row]] = {}
        self._packed: list[Parcel] = []
        self._numbers = count()

    def place(self, destination: int, partition: int, topic: str) -> list[Row]:
        """Where rows for a task, or for the driver, are put."""
        return self._places.setdefault((destination, partition, topic), [])

    def pack(self, at_least: int = ROWS_IN_PARCEL) -> None:
        """Packs the rows of the places that have enough of them."""
        for place, rows in self._places.items():
            if len(rows) >= at_least:
                first = next(self._numbers) if place[0] == DRIVER else rows[0][0]
                self._packed.append(Parcel(*place, first, len(rows), _encode(rows)))
                rows.clear()

    def take(self) -> Iterator[Parcel]:
        """Everything collected so far."""
        self.pack(1)
        packed, self._packed = self._packed, []
        return iter(packed)
