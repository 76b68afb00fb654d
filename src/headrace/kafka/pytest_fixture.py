"""The pytest fixture `embedded_kafka`: a real broker for a user's own integration tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.kafka.embedded import EmbeddedKafka


@pytest.fixture(scope="session")
def embedded_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A Kafka broker with its data in a temporary directory, started with the first test that asks for it."""
    with EmbeddedKafka(tmp_path_factory.mktemp("embedded-kafka"), port=0) as kafka:
        yield kafka
