"""Where the embedded Kafka lives: the files in `<state dir>/kafka`.

data/           Kafka's own data
broker.log      Kafka's log; broker.out has what its JVM printed, keeper.log what the keeper did
endpoint.json   where the broker answers
failure.txt     why the keeper gave up
given.json      what whoever started the keeper gave: settings of the broker, and of the clients that may ask it

users.lock      shared by every process that uses the broker, owned by the keeper when none is left
keeper.lock     owned by the keeper as long as it lives
broker.lock     owned by the broker as long as it lives: never two on the same data
start.lock      owned by who looks whether there is a keeper, and makes one
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headrace.private_files import open_private

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Endpoint:
    """Where the broker answers, and the processes behind it."""

    port: int
    keeper: int
    broker: int | None = None
    """The broker's process, None while there is none."""
    ready: bool = False

    @property
    def bootstrap_servers(self) -> str:
        """The address for Kafka's clients."""
        return f"{HOST}:{self.port}"


@dataclass(frozen=True)
class Given:
    """What a broker is started with beside the settings that it has by itself."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """Kafka's, for the broker. They override its own."""
    login: Mapping[str, str] = field(default_factory=dict)
    """librdkafka's, for a client that asks whether the broker is there: what its listener asks of everybody."""


@dataclass(frozen=True)
class Home:
    """The paths of one embedded Kafka."""

    directory: Path

    @classmethod
    def of(cls, state_dir: Path) -> Home:
        """The home below a state directory."""
        return cls(state_dir.expanduser().absolute() / "kafka")

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def properties(self) -> Path:
        return self.directory / "server.properties"

    @property
    def logging(self) -> Path:
        return self.directory / "log4j2.properties"

    @property
    def log(self) -> Path:
        return self.directory / "broker.log"

    @property
    def output(self) -> Path:
        return self.directory / "broker.out"

    @property
    def pid(self) -> Path:
        return self.directory / "broker.pid"

    @property
    def keeper_log(self) -> Path:
        return self.directory / "keeper.log"

    @property
    def failure(self) -> Path:
        return self.directory / "failure.txt"

    @property
    def given(self) -> Path:
        return self.directory / "given.json"

    @property
    def users_lock(self) -> Path:
        return self.directory / "users.lock"

    @property
    def keeper_lock(self) -> Path:
        return self.directory / "keeper.lock"

    @property
    def broker_lock(self) -> Path:
        return self.directory / "broker.lock"

    @property
    def start_lock(self) -> Path:
        return self.directory / "start.lock"

    @property
    def _endpoint(self) -> Path:
        return self.directory / "endpoint.json"

    def read_endpoint(self) -> Endpoint | None:
        """The endpoint, None if there is none."""
        try:
            return Endpoint(**json.loads(self._endpoint.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write_endpoint(self, endpoint: Endpoint) -> None:
        """Replaces the endpoint at one stroke, so that no reader sees half of it."""
        draft = self.directory / f".endpoint-{os.getpid()}"
        draft.write_text(json.dumps(asdict(endpoint)))
        draft.replace(self._endpoint)

    def forget_endpoint(self) -> None:
        """Removes the endpoint."""
        self._endpoint.unlink(missing_ok=True)

    def read_given(self) -> Given:
        """What the broker is to be started with."""
        return Given(**json.loads(self.given.read_text()))

    def write_given(self, given: Given) -> None:
        """Keeps what the broker is to be started with. Passwords may be among it: a command line would show them."""
        with open_private(self.given, "w") as file:
            json.dump(asdict(given), file)

    def read_failure(self) -> str | None:
        """Why the last keeper gave up, None if it did not."""
        try:
            return self.failure.read_text() or f"The embedded Kafka gave up; {self.keeper_log} may say why."
        except OSError:
            return None

    def write_failure(self, failure: str) -> None:
        """Says why the keeper gives up, as far as a disk that may be full allows."""
        with contextlib.suppress(OSError):
            self.failure.write_text(failure)
