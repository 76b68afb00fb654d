"""The pytest plugin: a fixture that makes drivers and closes them, and one that is a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from headrace.kafka.embedded import EmbeddedKafka
    from headrace.testing.driver import TopologyTestDriver


@pytest.fixture
def topology_test_driver() -> Iterator[Callable[..., TopologyTestDriver]]:
    """Makes drivers, `topology_test_driver(topology, config, ...)`, and closes them at the end of the test."""
    from headrace.testing.driver import TopologyTestDriver

    with ExitStack() as drivers:

        def make(*args: Any, **options: Any) -> TopologyTestDriver:
            return drivers.enter_context(TopologyTestDriver(*args, **options))

        yield make


@pytest.fixture(scope="session")
def embedded_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A real Kafka broker with its data in a temporary directory, started with the first test that asks for it."""
    from headrace.kafka.embedded import EmbeddedKafka

    with EmbeddedKafka(tmp_path_factory.mktemp("embedded-kafka"), port=0) as kafka:
        yield kafka
