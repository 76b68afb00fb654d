"""The results of a batch on their way from Spark's rows to Kafka's producer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.spark.rows import REPORT, STALE, STATE, Parcel, Row, read_parcels
from headrace.spark.worker import Report


class Outputs:
    """The records that a batch writes, packed."""

    def __init__(self, parcels: Sequence[Parcel] = ()) -> None:
        self._parcels = parcels
        self._count = sum(parcel.count for parcel in parcels)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[str, list[Row]]]:
        """Topics with rows: partition, timestamp, key, value, headers."""
        return ((parcel.topic, parcel.open()) for parcel in self._parcels)


class Refused(NamedTuple):
    """A record that was not delivered."""

    topic: str
    size: int
    error: KafkaError


def sort_out(table: pa.Table) -> tuple[Outputs, dict[str, bytes], list[Report]]:
    """The results of a batch: records to write, changes by task, and reports."""
    outputs: list[Parcel] = []
    changes: dict[str, bytes] = {}
    reports: list[Report] = []
    for parcel in read_parcels(table):
        if parcel.topic == STATE:
            changes.update((task.decode(), packed) for _, _, task, packed, _ in parcel.open() if task and packed)
        elif parcel.topic == REPORT:
            reports += [msgspec.json.decode(content, type=Report) for _, _, _, content, _ in parcel.open() if content]
        else:
            outputs.append(parcel)
    return Outputs(outputs), changes, reports


def stale_tasks(table: pa.Table) -> set[str]:
    """The tasks whose working copies have to be made anew before the batch can run."""
    stale = (parcel for parcel in read_parcels(table) if parcel.topic == STALE)
    return {task.decode() for parcel in stale for _, _, task, _, _ in parcel.open() if task}


def produce_all(producer: Producer, outputs: Outputs) -> list[Refused]:
    """Hands all records to the producer; what fails is in the list once the producer is flushed."""
    refused: list[Refused] = []

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            refused.append(Refused(message.topic(), len(message.key() or b"") + len(message.value() or b""), error))

    produce = producer.produce
    for topic, rows in outputs:
        for partition, timestamp, key, value, headers in rows:
            while True:
                try:
                    # librdkafka takes a timestamp of 0 for "now".
                    time, sent = timestamp or 1, list(headers) if headers else None
                    produce(topic, value, key, partition, on_delivery, None, time, sent)
                    break
                except BufferError:
                    producer.poll(0.1)
                except KafkaException as error:
                    refused.append(Refused(topic, len(key or b"") + len(value or b""), error.args[0]))
                    return refused
    return refused
