"""What travels in a batch: parcels of rows, for tasks and for the driver.

What tasks send is packed into parcels, each for one place and of one topic, so that neither a shuffle nor the way to
the driver is work for each record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, groupby

import msgspec
import pyarrow as pa

from headrace.record import Headers

DRIVER = -1
"""The destination of results."""
ANY_PARTITION = -1
"""Left to Kafka's partitioner."""
STATE = "\x00state"
"""The topic of a row that carries the changes of a task's stores."""
REPORT = "\x00report"
"""The topic of a row that carries what a task counted."""
STALE = "\x00stale"
"""The topic of a row that says that a task's working copy has to be made anew, and spoils the batch."""

PARCELS = "destination int, partition int, topic string, first long, count int, content binary"
"""What every stage gives, and the later ones take."""

Row = tuple[int, int, bytes | None, bytes | None, Headers]
"""A number, timestamp, key, value, headers. On the way to a task the number is the row's place in the order of rows,
on the way to the driver it is the partition to write to."""

_PARCEL_SCHEMA = pa.schema(
    [
        ("destination", pa.int32()),
        ("partition", pa.int32()),
        ("topic", pa.string()),
        ("first", pa.int64()),
        ("count", pa.int32()),
        ("content", pa.binary()),
    ]
)
ROWS_IN_PARCEL = 500
"""How many rows are packed together: so few that they are still in the processor's cache."""
_BYTES_AT_ONCE = 16 << 20
"""How large a batch of parcels becomes before the next one begins."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Row]).decode


@dataclass(frozen=True, slots=True)
class Parcel:
    """Rows of one topic for one task or for the driver, from one origin and in its order."""

    destination: int
    partition: int
    """The partition of the task they are for, or come from."""
    topic: str
    first: int
    """The number of the first row."""
    count: int
    open: Callable[[], list[Row]]


class RowWriter:
    """Collects the rows of each place and gives them out as parcels."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, int, str], list[Row]] = {}
        self._packed: list[tuple[int, int, str, int, int, bytes]] = []

    def place(self, destination: int, partition: int, topic: str) -> list[Row]:
        """Where rows for a task, or for the driver, are put."""
        return self._places.setdefault((destination, partition, topic), [])

    def pack(self, at_least: int = ROWS_IN_PARCEL) -> None:
        """Packs the rows of the places that have enough of them."""
        for place, rows in self._places.items():
            if len(rows) >= at_least:
                self._packed.append((*place, rows[0][0], len(rows), _encode(rows)))
                rows.clear()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Everything collected so far."""
        self.pack(1)
        packed, self._packed = self._packed, []
        sizes = accumulate(len(content) for *_, content in packed)
        for _, each in groupby(zip(sizes, packed, strict=True), key=lambda sized: sized[0] // _BYTES_AT_ONCE):
            columns = zip(*(parcel for _, parcel in each), strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, _PARCEL_SCHEMA, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_PARCEL_SCHEMA)


def read_parcels(batch: pa.RecordBatch | pa.Table) -> Iterator[Parcel]:
    """The parcels of a stage."""
    for row in batch.to_pylist():
        content = row.pop("content")
        yield Parcel(**row, open=partial(_decode, content))
