"""Sends messages to Kafka, so many a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

from headrace.errors import EnvironmentFailed
from headrace.kafka.clients import ClientSettings

_FLUSH_SECONDS = 30.0


class Message(NamedTuple):
    """A record to be sent."""

    topic: str
    key: bytes | None
    value: bytes | None


def feed(
    settings: ClientSettings, messages: Iterable[Message], rate: float, stop: threading.Event | None = None
) -> int:
    """Sends the messages, `rate` a second, until they end or `stop` is set; answers how many Kafka has."""
    from confluent_kafka import KafkaError, Producer

    stop = stop or threading.Event()
    # Kafka's own partitioner: what is joined has to be in partitions of the same number.
    ours = {"log_level": 0, "linger.ms": 5, "partitioner": "murmur2_random", "enable.idempotence": True}
    producer = Producer({**ours, **settings.producer()})
    problems: list[str] = []
    sent = 0

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            problems.append(error.str())

    started = time.monotonic()
    for message in messages:
        if problems or stop.wait(max(0.0, started + sent / rate - time.monotonic())):
            break
        producer.produce(message.topic, message.value, message.key, on_delivery=delivered)
        producer.poll(0)
        sent += 1
    unsent = producer.flush(_FLUSH_SECONDS)
    if problems or unsent:
        reason = problems[0] if problems else "it did not answer in time"
        raise EnvironmentFailed(f"Kafka at {settings.bootstrap_servers} did not take all messages: {reason}")
    return sent
