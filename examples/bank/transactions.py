"""Puts transactions into the topic."""

from __future__ import annotations

import threading

from confluent_kafka import KafkaError, Producer

from headrace.kafka.clients import ClientSettings

from .pipeline import TRANSACTIONS, account, amount

_SECONDS = 10.0
_SETTINGS = {
    "enable.idempotence": True,
    "message.timeout.ms": int(_SECONDS * 1000),
    # Java's partitioner: the one that instances look accounts up by.
    "partitioner": "murmur2_random",
}


class NotTaken(Exception):
    """Kafka has not confirmed a transaction."""


class Transactions:
    """Sends transactions to one Kafka; for any number of threads."""

    def __init__(self, settings: ClientSettings) -> None:
        self._producer = Producer({"log_level": 0, **settings.producer(**_SETTINGS)})

    def send(self, id: str, change: int) -> None:
        """Puts a transaction into the topic; answers when Kafka has it, and raises NotTaken if it does not."""
        done = threading.Event()
        problems: list[str] = []

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is not None:
                problems.append(error.str())
            done.set()

        self._producer.produce(TRANSACTIONS, amount.serialize(change), account.serialize(id), on_delivery=delivered)
        while not done.is_set():
            self._producer.poll(0.1)
        if problems:
            raise NotTaken(problems[0])
