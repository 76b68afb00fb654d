"""The Kafka that a command works with: the one that was named, or the embedded one for as long as it takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from headrace.cli.terminal import Terminal
from headrace.config import StreamsConfig
from headrace.kafka.embedded import DEFAULT_PORT, EmbeddedKafka
from headrace.kafka.jars import BROKER, JarSet, cached, resolve
from headrace.presence import state_directory


@contextmanager
def reachable(config: StreamsConfig, terminal: Terminal) -> Iterator[StreamsConfig]:
    """The configuration with servers in it, which answer while the block runs."""
    if config.bootstrap_servers:
        yield config
        return
    with embedded(state_directory(config), DEFAULT_PORT, terminal) as kafka:
        yield replace(config, bootstrap_servers=kafka.bootstrap_servers)


@contextmanager
def embedded(state_dir: Path, port: int, terminal: Terminal) -> Iterator[EmbeddedKafka]:
    """The embedded Kafka, with progress while its jars are downloaded and while it starts."""
    download(BROKER, "Downloading Kafka", terminal)
    kafka = EmbeddedKafka(state_dir, port)
    with terminal.busy("Starting Kafka"):
        kafka.start()
    try:
        yield kafka
    finally:
        kafka.close()


def download(jar_set: JarSet, what: str, terminal: Terminal) -> None:
    """Downloads jars that are not in the cache yet, with a progress bar."""
    if cached(jar_set) is None:
        with terminal.counting(what, "jars") as show:
            show(0)
            resolve(jar_set, show)
