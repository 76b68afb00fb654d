"""A steady producer: one record at a time, none of them waiting for another."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.orders import Order


class Sent(NamedTuple):
    """A record when it was sent, and the how many-th of its key it is."""

    at: float
    key: bytes
    ordinal: int


class Steady:
    """Sends orders to a topic at a rate; the records' timestamps are the present."""

    def __init__(self, servers: str, topic: str, records: Iterator[Order], *, by_order: bool) -> None:
        self._topic = topic
        self._records = records
        self._by_order = by_order
        self._ordinals: Counter[bytes] = Counter()
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "partitioner": "murmur2_random",
                "acks": "all",
                "linger.ms": 0,
                "log_level": 0,
            }
        )

    def run(self, rate: float, seconds: float, stopped: threading.Event | None = None) -> list[Sent]:
        """Sends so many a second for so long, or until it is stopped."""
        sent: list[Sent] = []
        began = time.monotonic()
        for number in range(int(rate * seconds)):
            wait = began + number / rate - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            if stopped is not None and stopped.is_set():
                break
            sent.append(self._send(next(self._records)))
        return sent

    def close(self) -> None:
        """Waits until Kafka has everything."""
        self._producer.flush()

    def _send(self, order: Order) -> Sent:
        key = order.order_id if self._by_order else order.location_id
        self._ordinals[key] += 1
        at = time.monotonic()
        self._producer.produce(self._topic, order.value, key, on_delivery=_on_delivery)
        self._producer.poll(0)
        return Sent(at, key, self._ordinals[key])


def _on_delivery(error: KafkaError | None, message: Message) -> None:
    if error is not None:
        raise RuntimeError(f"Kafka did not take an order: {error}")
