"""Killed at any moment of a batch, an application goes on as if nothing had happened."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec
from tests.spark.crashing_application import PHASES
from tests.spark.running import read_all

KEYS = ("a", "b", "c")


class Application:
    """The application in a process of its own."""

    def __init__(self, **settings: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.crashing_application", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def tell(self, line: str) -> bool:
        """Has the application do what the line says; False if it was killed on the way."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return False
        return any(answer == f"done {line}\n" for answer in self._process.stdout)

    def end(self) -> int:
        """Lets the application end; its exit code."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=60)
        return self._process.wait()


@pytest.mark.parametrize("phase", PHASES)
def test_killed_in_a_batch(phase: str, embedded_kafka: EmbeddedKafka, tmp_path: Path) -> None:
    application_id = f"crash-{uuid.uuid4().hex[:8]}"
    servers = embedded_kafka.bootstrap_servers
    settings = ClientSettings(servers)
    Topics(settings).create([TopicSpec(f"{application_id}.{name}", 1) for name in ("in", "out")])
    producer = Producer(settings.producer())

    def send() -> None:
        for key in KEYS:
            producer.produce(f"{application_id}.in", "x", key)
        producer.flush()

    common = {"servers": servers, "state_dir": str(tmp_path), "application_id": application_id}
    doomed = Application(**common, phase=phase)
    send()
    assert doomed.tell("all")
    assert doomed.tell("arm")
    send()
    assert not doomed.tell("all"), "it should have been killed"
    assert doomed.end() < 0

    survivor = Application(**common)
    send()
    assert survivor.tell("all")
    assert survivor.end() == 0

    written = [
        (key, int.from_bytes(value or b"", "big")) for key, value, *_ in read_all(settings, f"{application_id}.out")
    ]
    for key in KEYS:
        assert [count for name, count in written if name == key.encode()] == [1, 2, 3]
