from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.kafka.broker import prepare_data
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.home import Home
from headrace.kafka.jars import BROKER, resolve
from headrace.kafka.java import find_java
from headrace.kafka.topics import Topics
from tests.integration.kafka.users import User


@pytest.fixture
def topics(embedded_kafka: EmbeddedKafka) -> Topics:
    return Topics(ClientSettings(embedded_kafka.bootstrap_servers))


@pytest.fixture(scope="session")
def formatted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An embedded Kafka's directory that has not run yet; formatting one takes a JVM."""
    state_dir = tmp_path_factory.mktemp("formatted")
    home = Home.of(state_dir)
    home.directory.mkdir()
    prepare_data(home, find_java().path, resolve(BROKER))
    return state_dir


@pytest.fixture
def state_dir(tmp_path: Path, formatted: Path) -> Path:
    """A state directory of the test's own."""
    return Path(shutil.copytree(formatted, tmp_path / "state"))


@pytest.fixture
def user(state_dir: Path) -> Iterator[Callable[[], User]]:
    """Starts processes that use the embedded Kafka in the test's own directory, and ends them."""
    started: list[User] = []

    def start() -> User:
        started.append(User(state_dir))
        return started[-1]

    yield start
    for each in started:
        each.kill()
