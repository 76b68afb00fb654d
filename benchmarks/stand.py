"""The stand on which everything is measured: a directory, and a broker of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders.kafka_streams_side import compile_program
from benchmarks.display import Display
from benchmarks.loading import Loader
from benchmarks.processes import Usage, usage
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Stand:
    """Where contenders run."""

    directory: Path
    kafka: EmbeddedKafka
    java: list[str]
    loader: Loader
    display: Display

    @property
    def servers(self) -> str:
        """The address of the broker."""
        return self.kafka.bootstrap_servers

    def broker_usage(self) -> Usage:
        """What the broker has used so far."""
        endpoint = self.kafka.endpoint
        assert endpoint is not None and endpoint.broker is not None
        return usage(endpoint.broker)

    def forget(self, application_id: str) -> None:
        """Removes the topics and the state of an application."""
        topics = Topics(ClientSettings(self.servers))
        # Quix Streams has the id in the middle of the names of its topics.
        topics.delete([name for name in topics.describe() if f"{application_id}-" in name])
        shutil.rmtree(self.directory / application_id, ignore_errors=True)


@contextmanager
def set_up(display: Display) -> Iterator[Stand]:
    """A stand that is gone afterwards, with all its data."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        with display.task("Compiling the Kafka Streams program") as advance:
            java = compile_program(directory / "classes", advance)
        with display.task("Starting Kafka") as advance:
            kafka = EmbeddedKafka(directory, progress=advance).start()
        try:
            yield Stand(directory, kafka, java, Loader(kafka.bootstrap_servers), display)
        finally:
            kafka.close()
