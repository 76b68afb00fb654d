"""An application with topics of its own, to try things on."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from headrace import Consumed, Produced, Serdes, StreamsBuilder, StreamsConfig, Topology
from headrace.kafka.clients import ClientSettings
from headrace.kafka.topics import Topics, TopicSpec
from tests.spark.running import read_all

TEXT = Serdes.string()


class Lab:
    """An application's own topics, and ways to write and read them."""

    def __init__(self, servers: str, directory: Path) -> None:
        self.application_id = f"lab-{uuid.uuid4().hex[:8]}"
        self.directory = directory
        self.servers = servers
        self.settings = ClientSettings(servers)
        self._producer = Producer({"log_level": 0, **self.settings.producer(enable_idempotence=True)})

    def config(self, **settings: object) -> StreamsConfig:
        return StreamsConfig(
            application_id=self.application_id,
            bootstrap_servers=self.servers,
            state_dir=str(self.directory),
            **settings,
        )

    def create_topics(self) -> None:
        Topics(self.settings).create([TopicSpec(f"{self.application_id}.{name}", 1) for name in ("in", "out", "dlq")])

    def send(self, *values: str) -> None:
        for value in values:
            self._producer.produce(f"{self.application_id}.in", value, "k")
        self._producer.flush()

    def written(self, name: str = "out") -> list[str]:
        return [(value or b"").decode() for _, value, *_ in read_all(self.settings, f"{self.application_id}.{name}")]

    def topology(self, shout: Callable[[str], str] = str.upper, store: str | None = None) -> Topology:
        """Writes what the function makes of each value; with a store, it counts the records too."""
        builder = StreamsBuilder()
        records = builder.stream(f"{self.application_id}.in", Consumed(key=TEXT, value=TEXT))
        records.map_values(lambda value: shout(value)).to(f"{self.application_id}.out", Produced(value=TEXT))
        if store is not None:
            records.group_by_key().count(store)
        return builder.build()


def poisoned(value: str) -> str:
    """Upper case; "poison" raises."""
    if value == "poison":
        raise ValueError("poisoned")
    return value.upper()


def once(marker: Path, value: str, misfortune: Callable[[], None]) -> str:
    """Upper case; at "poison" the misfortune happens, unless it did before."""
    if value == "poison" and not marker.exists():
        marker.touch()
        misfortune()
    return value.upper()


def held_up(directory: Path, value: str) -> str:
    """Upper case; "slow" says that it is there, and waits to be let go."""
    if value == "slow":
        (directory / "there").touch()
        await_file(directory / "go")
    return value.upper()


def await_file(path: Path, seconds: float = 120.0) -> None:
    """Waits until the file exists."""
    await_that(path.exists, f"{path} does not come", seconds)


def await_that(happens: Callable[[], object], otherwise: str, seconds: float = 120.0) -> None:
    """Waits until something holds."""
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)
