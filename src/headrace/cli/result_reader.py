"""Reads the committed records of topics as they come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from headrace.errors import EnvironmentFailed
from headrace.kafka.clients import ClientSettings
from headrace.kafka.topics import Topics

_POLL_SECONDS = 0.2
_SILENCE_SECONDS = 10.0


class ResultReader:
    """Calls a function with each committed message of the topics, from their beginning on, in a thread of its own."""

    def __init__(self, settings: ClientSettings, topics: Iterable[str], on_message: Callable[[Any], None]) -> None:
        from confluent_kafka import Consumer

        self._servers = settings.bootstrap_servers
        self._on_message = on_message
        partitions = Topics(settings).describe(topics).items()
        self._next = {(name, number): 0 for name, count in partitions for number in range(count)}
        ours = {
            "group.id": "headrace-demo",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
        self._consumer = Consumer({"log_level": 0, **settings.consumer(**ours)})
        self._assign()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="headrace-results", daemon=True)
        self._thread.start()

    def read_to_the_end(self) -> None:
        """Returns when all that has been committed until now was read; nothing more is read then."""
        self._halt()
        self._assign()
        unread = set(self._next)
        while unread:
            message = self._consumer.poll(_SILENCE_SECONDS)
            if message is None:
                raise EnvironmentFailed(f"Kafka at {self._servers} went silent while its results were read.")
            if not self._take(message):
                unread.discard((message.topic(), message.partition()))

    def close(self) -> None:
        """Stops reading."""
        self._halt()
        self._consumer.close()

    def _halt(self) -> None:
        self._stop.set()
        self._thread.join()

    def _assign(self) -> None:
        """Goes on where it was; each partition's end is told anew."""
        from confluent_kafka import TopicPartition

        self._consumer.assign([TopicPartition(*place, offset) for place, offset in self._next.items()])

    def _follow(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(_POLL_SECONDS)
            if message is not None:
                self._take(message)

    def _take(self, message: Any) -> bool:
        """Takes in a message; False at the end of a partition. Clients get over other errors by themselves."""
        from confluent_kafka import KafkaError

        error = message.error()
        if error is not None:
            return bool(error.code() != KafkaError._PARTITION_EOF)
        self._next[message.topic(), message.partition()] = message.offset() + 1
        self._on_message(message)
        return True
