"""Makes topics and fills them, quickly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.orders import PARTITIONS, Order
from headrace.kafka.clients import ClientSettings
from headrace.kafka.topics import Topics, TopicSpec

KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}
"""Settings of topics whose records stay, however old their timestamps are."""

_TOLD_EVERY = 20_000


class Record(NamedTuple):
    """A record as it goes to Kafka."""

    key: bytes
    value: bytes
    timestamp: int


class Loader:
    """Makes topics and fills them, quickly."""

    def __init__(self, servers: str) -> None:
        self._topics = Topics(ClientSettings(servers))
        self._errors: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "linger.ms": 20,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": 500_000,
                "log_level": 0,
            }
        )

    def make(self, *names: str, partitions: int = PARTITIONS) -> None:
        """Makes topics that keep all records."""
        self._topics.create([TopicSpec(name, partitions, KEPT) for name in names])

    def write(self, topic: str, records: Iterable[Record], told: Callable[[int], None] = lambda count: None) -> None:
        """Writes the records to a topic, partitioned by their keys."""
        for count, record in enumerate(records, 1):
            self._send(topic, *record)
            if count % _TOLD_EVERY == 0:
                told(count)
        self._flush()

    def load(
        self,
        records: Iterable[Order],
        by_order: str | None,
        by_location: str | None,
        told: Callable[[int], None] = lambda count: None,
    ) -> None:
        """Writes the orders to a topic with the order's id as the key, to one with the location's, or to both."""
        for count, order in enumerate(records, 1):
            if by_order is not None:
                self._send(by_order, order.order_id, order.value, order.timestamp)
            if by_location is not None:
                self._send(by_location, order.location_id, order.value, order.timestamp)
            if count % _TOLD_EVERY == 0:
                told(count)
        self._flush()

    def _send(self, topic: str, key: bytes, value: bytes, timestamp: int) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, timestamp=timestamp, on_delivery=self._on_delivery)
                return
            except BufferError:
                self._producer.poll(0.05)

    def _flush(self) -> None:
        self._producer.flush()
        if self._errors:
            raise RuntimeError(f"Kafka did not take all records: {self._errors[0]}")

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._errors.append(error)
