"""The stand on which everything is measured: a directory, a broker of its own, and the contenders' processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.display import Display
from benchmarks.kafka_streams_side import compile_program
from benchmarks.orders import Loader
from benchmarks.processes import Usage, kill_tree, usage
from headrace.config import EXACTLY_ONCE_V2
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics

HEADRACE = "headrace"
KAFKA_STREAMS = "kafka-streams"
AT_LEAST_ONCE = "headrace-at-least-once"
CONTENDERS = (HEADRACE, KAFKA_STREAMS)
"""Those of the race; what exactly once costs is seen beside it."""

ROOT = Path(__file__).parent.parent
_LOG_LINES = 20


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
        topics.delete([name for name in topics.describe() if name.startswith(f"{application_id}-")])
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


@dataclass(frozen=True)
class Application:
    """One application: who runs which topology on which topics."""

    contender: str
    application_id: str
    topology: str
    source: str
    batch_records: int | None = None
    """How many records a batch of Headrace's has at most; None is its default."""

    @property
    def guarantee(self) -> str:
        """How often a record takes effect."""
        return "at_least_once" if self.contender == AT_LEAST_ONCE else EXACTLY_ONCE_V2

    @property
    def output(self) -> str:
        """The topic it writes to."""
        return f"{self.application_id}-out"

    @property
    def last_topic(self) -> str:
        """The last topic on a record's way through the application; a shuffle of Headrace's is none."""
        if self.contender == KAFKA_STREAMS and self.topology == "windows":
            return f"{self.application_id}-by-location-repartition"
        return self.source


class Running:
    """An application at work in a process of its own. A context manager: it is killed on leaving."""

    def __init__(self, stand: Stand, application: Application) -> None:
        self.application = application
        self.home = stand.directory / application.application_id
        self.home.mkdir(exist_ok=True)
        self.batches = self.home / "batches.jsonl"
        self._log = self.home / "log.txt"
        with self._log.open("ab") as log:
            self.started = time.monotonic()
            self._process = subprocess.Popen(
                self._command(stand),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.home,
                env={**os.environ, **self._environment()},
            )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        kill_tree(self._process.pid)
        self._process.wait()

    def usage(self) -> Usage:
        """What it has used so far; RuntimeError if it has ended."""
        self.check()
        return usage(self._process.pid)

    def check(self) -> None:
        """RuntimeError, with the end of its log, if it has ended."""
        code = self._process.poll()
        if code is not None:
            end = "\n".join(self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
            raise RuntimeError(f"{self.application.application_id} ended with code {code}:\n{end}")

    def _command(self, stand: Stand) -> list[str]:
        its = self.application
        state = str(self.home / "state")
        if its.contender == KAFKA_STREAMS:
            java, *rest = stand.java
            names = [its.topology, its.source, its.output, stand.servers, its.application_id, state]
            return [java, f"-Djava.io.tmpdir={self.home}", *rest, *names, str(os.cpu_count())]
        command = [sys.executable, "-m", "benchmarks.headrace_side", "--topology", its.topology]
        command += ["--source", its.source, "--output", its.output, "--servers", stand.servers]
        command += ["--application-id", its.application_id, "--state-dir", state, "--guarantee", its.guarantee]
        command += [] if its.batch_records is None else ["--batch-records", str(its.batch_records)]
        return [*command, "--batches", str(self.batches)]

    def _environment(self) -> dict[str, str]:
        """What it leaves behind when it is killed goes where it will be removed."""
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        return {"PYTHONPATH": path, "TMPDIR": str(self.home), "SPARK_LOCAL_DIRS": str(self.home / "spark")}
