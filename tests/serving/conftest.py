from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.kafka.embedded import EmbeddedKafka
from tests.serving.served import Served, serving
from tests.serving.shop import BASE, KEYS, MINUTE, counter, shop
from tests.serving.stage import Running, Stage

MakeStage = Callable[..., Stage]
CLICKERS = [f"user{number}" for number in range(40)] + ["user1x", "ä", "z/1"]


class Fixed:
    """The application with stores of every kind, and its three instances."""

    def __init__(self, stage: Stage, running: list[Running], prefix: str) -> None:
        self.stage = stage
        self.running = running
        self.prefix = prefix
        self.turns = iter(lambda: random.choice(running), None)

    @property
    def any(self) -> Running:
        """One of the instances."""
        return next(self.turns)

    def truth(self, store: str, read: Any) -> list[Any]:
        """What the stores of all tasks have together."""
        return [entry for driver in self.stage.drivers for entry in read(driver.store(store))]


@pytest.fixture(scope="session")
def app(embedded_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fixed]:
    """One for all tests that only ask."""
    random.seed(7)
    prefix = f"shop-{uuid.uuid4().hex[:6]}"
    topology = shop(prefix)
    stage = Stage(topology, embedded_kafka.bootstrap_servers, tmp_path_factory.mktemp("shop"), standbys=1)
    try:
        clicks = [(random.choice(CLICKERS), "c", BASE + random.randrange(60 * MINUTE)) for _ in range(600)]
        stage.pipe(f"{prefix}-clicks", sorted(clicks, key=lambda record: record[2]))
        for name, (_, keys) in KEYS.items():
            stage.pipe(
                f"{prefix}-{name}", [(key, {"of": index, "ä": None}, 1 + index) for index, key in enumerate(keys)]
            )
        prices = [("tea", 1.0, 1000), ("tea", 2.5, 5000), ("tea", 2.0, 3000), ("jam", 7.0, 10), ("jam", None, 4000)]
        stage.pipe(f"{prefix}-prices", [(key, price, BASE + time) for key, price, time in prices])
        stage.pipe(f"{prefix}-places", [(f"p{number}", {"n": number}, 1 + number) for number in range(20)])
        running = stage.start_all(3)
        yield Fixed(stage, running, prefix)
    finally:
        stage.close()


@pytest.fixture
def served(counting: MakeStage) -> Iterator[tuple[Served, Stage]]:
    """An instance in a process of its own, with the stage it is on."""
    stage = counting(partitions=1)
    with serving(stage) as served:
        yield served, stage


@pytest.fixture
def counting(embedded_kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[MakeStage]:
    """Makes stages with the store `n` of counts, fed through the topic `stage.source`."""
    with ExitStack() as stages:

        def make(**options: int) -> Stage:
            topic = f"in-{uuid.uuid4().hex[:8]}"
            stage = Stage(counter(topic), embedded_kafka.bootstrap_servers, tmp_path, **options)
            stages.callback(stage.close)
            return stage

        yield make


@pytest.fixture(scope="session")
def http() -> Iterator[httpx.Client]:
    """Asks instances."""
    with httpx.Client(timeout=60, trust_env=False) as client:
        yield client
