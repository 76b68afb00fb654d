"""The rows that travel in a batch: records for tasks, results for the driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from headrace.record import NO_HEADERS, Headers

DRIVER = -1
"""The destination of results."""
ANY_PARTITION = -1
"""Left to Kafka's partitioner."""
STATE = "\x00state"
"""The topic of a row that carries the changes of a task's stores."""
REPORT = "\x00report"
"""The topic of a row that carries what a task counted."""
TICK = "\x00tick"
"""The topic of a row that only wakes a task."""

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("destination", pa.int32()),
        ("partition", pa.int32()),
        ("topic", pa.string()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
"""`destination` is a sub-topology; `offset` gives the order of rows from one origin."""
SPARK_SCHEMA = (
    "destination int, partition int, topic string, offset long, timestamp long, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)

Row = tuple[int, int, str, int, int, bytes | None, bytes | None, Headers]


class RowWriter:
    """Collects rows and gives them out as Arrow batches of a bearable size."""

    def __init__(self, rows_per_batch: int = 20_000) -> None:
        self._rows: list[Row] = []
        self._limit = rows_per_batch
        self.add = self._rows.append

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Everything collected so far."""
        rows = self._rows
        for start in range(0, len(rows), self._limit):
            yield to_batch(rows[start : start + self._limit])
        rows.clear()


def to_batch(rows: list[Row]) -> pa.RecordBatch:
    """The rows as one Arrow batch."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns[:-1], SCHEMA, strict=False)]
    arrays.append(_headers_array(columns[-1]))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _headers_array(column: Any) -> pa.Array:
    if not any(column):
        return pa.nulls(len(column), HEADERS)
    return pa.array([[{"key": key, "value": value} for key, value in headers] for headers in column], HEADERS)


def read_headers(column: pa.ChunkedArray | pa.Array) -> list[Headers] | None:
    """The headers of each row; None where no row has any."""
    if column.null_count == len(column):
        return None
    return [
        NO_HEADERS if not headers else tuple((header["key"], header["value"]) for header in headers)
        for headers in column.to_pylist()
    ]
