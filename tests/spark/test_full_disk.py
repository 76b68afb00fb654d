"""The disk of the state directory fills up while an application runs: it says so, and goes on once there is room."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec
from tests.spark.running import read_all

pytestmark = pytest.mark.acceptance

SIZE_MB = 32
_ENTER = ["nsenter", "--user", "--mount", "--preserve-credentials", "--wd=.", "--target"]


class SmallDisk:
    """A small disk of its own, which only processes started through it see."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        mount = f"mount -t tmpfs -o size={SIZE_MB}m tmpfs '{directory}' && echo ready && exec cat"
        self._holder = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._holder.stdout is not None
        self.is_there = self._holder.stdout.readline() == "ready\n"

    def command(self, *command: str) -> list[str]:
        """The command as it has to be called to see the disk."""
        return [*_ENTER, str(self._holder.pid), *command]

    def fill(self, room_kb: int) -> None:
        """Leaves only so much room."""
        script = (
            f"cd '{self.directory}' && free=$(df --output=avail -k . | tail -1) && "
            f"head -c $(( (free - {room_kb}) * 1024 )) /dev/zero > filler"
        )
        subprocess.run(self.command("sh", "-c", script), check=True)

    def make_room(self) -> None:
        subprocess.run(self.command("rm", str(self.directory / "filler")), check=True)

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    directory = tmp_path / "disk"
    directory.mkdir()
    with contextlib.closing(SmallDisk(directory)) as disk:
        if not disk.is_there:
            pytest.skip("this machine lets nobody mount a disk of his own")
        yield disk


class Application:
    """The counting application on the small disk, in a process of its own."""

    def __init__(self, disk: SmallDisk, errors: Path, **settings: object) -> None:
        self._errors = errors
        command = disk.command(sys.executable, "-m", "tests.spark.counting_application", json.dumps(settings))
        with errors.open("w") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )

    def process_all(self) -> bool:
        """Whether everything was processed; False if the application ended instead."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return any(answer == "done\n" for answer in self._process.stdout)

    def end(self) -> tuple[int, str]:
        """Lets it end; its exit code and the last line it complained with."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=120)
        lines = self._errors.read_text().splitlines()
        return self._process.wait(), next((line for line in reversed(lines) if "disk is full" in line), "")


@pytest.mark.parametrize("room_kb", [0, 512], ids=["for nothing", "for Spark's files, not for the state"])
def test_a_full_disk(room_kb: int, disk: SmallDisk, embedded_kafka: EmbeddedKafka, tmp_path: Path) -> None:
    application_id = f"full-{uuid.uuid4().hex[:8]}"
    settings = ClientSettings(embedded_kafka.bootstrap_servers)
    Topics(settings).create([TopicSpec(f"{application_id}.{name}", 1) for name in ("in", "out")])
    producer = Producer(settings.producer(enable_idempotence=True))

    def send(batch: int) -> None:
        for number in range(1000):
            producer.produce(f"{application_id}.in", "x", f"{batch}-{number}-{'long' * 400}")
        producer.flush()

    common = {
        "servers": embedded_kafka.bootstrap_servers,
        "state_dir": str(disk.directory),
        "application_id": application_id,
    }
    first = Application(disk, tmp_path / "first.txt", **common)
    send(1)
    assert first.process_all(), (tmp_path / "first.txt").read_text()
    disk.fill(room_kb)
    send(2)
    assert not first.process_all()
    code, complaint = first.end()
    assert code == 1
    assert f"The disk is full: the state directory {disk.directory} has" in complaint
    assert "Nothing was lost: make room there and start again" in complaint

    disk.make_room()
    second = Application(disk, tmp_path / "second.txt", **common)
    assert second.process_all(), (tmp_path / "second.txt").read_text()
    assert second.end()[0] == 0
    written = [key for key, *_ in read_all(settings, f"{application_id}.out")]
    assert len(written) == len(set(written)) == 2000
