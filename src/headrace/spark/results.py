"""The results of a batch on their way from the workers to Kafka's producer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.spark.parcels import REPORT, Parcel
from headrace.spark.ranges import Row
from headrace.spark.task_run import Report


class Outputs:
    """The records that a batch writes, packed."""

    def __init__(self, parcels: Sequence[Parcel] = ()) -> None:
        self._parcels = parcels
        self._count = sum(parcel.rows for parcel in parcels)

    def __len__(self) -> int:
        return self._count

    @property
    def topics(self) -> set[str]:
        """Where the records go."""
        return {parcel.topic for parcel in self._parcels}

    def rows_by_task(self) -> Counter[tuple[str, int]]:
        """How many rows there are by topic and by partition of the task: that of a changelog is the task's."""
        rows: Counter[tuple[str, int]] = Counter()
        for parcel in self._parcels:
            rows[parcel.topic, parcel.partition] += parcel.rows
        return rows

    def __iter__(self) -> Iterator[tuple[str, list[Row]]]:
        """Topics with rows: partition, timestamp, key, value, headers."""
        return ((parcel.topic, parcel.open()) for parcel in self._parcels)


class Refused(NamedTuple):
    """A record that was not delivered."""

    topic: str
    size: int
    error: KafkaError


def sort_out(parcels: Iterable[Parcel]) -> tuple[Outputs, list[Report]]:
    """The results of a batch: records to write, those of each task in their order, and the tasks' reports."""
    outputs: list[Parcel] = []
    reports: list[Report] = []
    for parcel in sorted(parcels, key=attrgetter("first")):
        if parcel.topic == REPORT:
            reports += [_report(content) for _, _, _, content, _ in parcel.open() if content is not None]
        else:
            outputs.append(parcel)
    return Outputs(outputs), reports


_report = msgspec.msgpack.Decoder(Report).decode


def produce_all(producer: Producer, outputs: Iterable[tuple[str, list[Row]]]) -> list[Refused]:
    """Hands all records to the producer; what fails is in the list once the producer is flushed."""
    refused: list[Refused] = []

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            refused.append(Refused(message.topic(), len(message.key() or b"") + len(message.value() or b""), error))

    produce = producer.produce
    for topic, rows in outputs:
        for partition, timestamp, key, value, headers in rows:
            # librdkafka takes a timestamp of 0 for "now".
            time, sent = timestamp or 1, list(headers) if headers else None
            while True:
                try:
                    produce(topic, value, key, partition, on_delivery, None, time, sent)
                    break
                except BufferError:
                    producer.poll(0.1)
                except KafkaException as error:
                    refused.append(Refused(topic, len(key or b"") + len(value or b""), error.args[0]))
                    return refused
    return refused
