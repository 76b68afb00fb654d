"""A real Kafka with the topics that an example names."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Producer

from headrace import StreamsConfig
from headrace.kafka.clients import ClientSettings
from headrace.kafka.topics import Topics, TopicSpec
from headrace.record import Headers
from tests.spark.running import read_all


class Broker:
    """Topics to write and to read, and the configuration of an application on them."""

    def __init__(self, servers: str, directory: Path) -> None:
        self._servers = servers
        self._directory = directory
        self._settings = ClientSettings(servers)
        self._producer = Producer(
            {"log_level": 0, "partitioner": "murmur2_random", **self._settings.producer(enable_idempotence=True)}
        )

    def config(self, config: StreamsConfig) -> StreamsConfig:
        """The configuration of an example, on this Kafka and under an id of its own."""
        return replace(
            config,
            application_id=f"{config.application_id}-{uuid.uuid4().hex[:8]}",
            bootstrap_servers=self._servers,
            state_dir=str(self._directory),
        )

    def send(self, topic: str, *records: tuple[str | None, str | bytes], timestamp: int = 0) -> None:
        """Writes records, all with the same time; 0 is now."""
        for key, value in records:
            self._producer.produce(topic, value, key, timestamp=timestamp)
        assert self._producer.flush(60) == 0

    def read(self, topic: str) -> list[tuple[bytes | None, bytes | None, int | None, Headers]]:
        """What is committed in the topic: key, value, time and headers."""
        return read_all(self._settings, topic)

    @contextmanager
    def topics(self, specs: Iterable[TopicSpec]) -> Iterator[None]:
        """Makes topics, and removes them at the end: the next test makes its own."""
        topics, made = Topics(self._settings), list(specs)
        topics.create(made)
        try:
            yield
        finally:
            topics.delete(spec.name for spec in made)
