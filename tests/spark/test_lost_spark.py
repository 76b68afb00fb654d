"""Spark's JVM dies under a running application."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

from confluent_kafka import Producer

from headrace import Serdes
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec
from tests.spark.running import read_all


def test_an_application_that_is_to_go_on_gets_a_new_jvm(embedded_kafka: EmbeddedKafka, tmp_path: Path) -> None:
    settings = ClientSettings(embedded_kafka.bootstrap_servers)
    application_id = _with_topics(settings)
    command = _command(settings, application_id, tmp_path)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            _count(process, settings, f"{application_id}.in", 3)
            os.kill(_jvm_of(process.pid), signal.SIGKILL)
            _count(process, settings, f"{application_id}.in", 2)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(60) == 0
        finally:
            process.kill()
    counts = [Serdes.long().deserialize(value) for _, value, _, _ in read_all(settings, f"{application_id}.out")]
    assert counts == [1, 2, 3, 4, 5]


def test_an_application_ends_with_the_context_that_it_was_given(embedded_kafka: EmbeddedKafka, tmp_path: Path) -> None:
    settings = ClientSettings(embedded_kafka.bootstrap_servers)
    application_id = _with_topics(settings)
    command = _command(settings, application_id, tmp_path, brings_spark=True)
    errors = tmp_path / "errors"
    with (
        errors.open("w") as told,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told, text=True) as process,
    ):
        try:
            _count(process, settings, f"{application_id}.in", 3)
            os.kill(_jvm_of(process.pid), signal.SIGKILL)
            _send(settings, f"{application_id}.in", 2)
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.wait(60) != 0
        finally:
            process.kill()
    assert "The SparkContext that the application was given has ended" in errors.read_text()
    counts = [Serdes.long().deserialize(value) for _, value, _, _ in read_all(settings, f"{application_id}.out")]
    assert counts == [1, 2, 3]


def _with_topics(settings: ClientSettings) -> str:
    application_id = f"lost-spark-{uuid.uuid4().hex[:8]}"
    Topics(settings).create([TopicSpec(f"{application_id}.in", 1), TopicSpec(f"{application_id}.out", 1)])
    return application_id


def _command(settings: ClientSettings, application_id: str, state_dir: Path, **more: bool) -> list[str]:
    told = {
        "servers": settings.bootstrap_servers,
        "state_dir": str(state_dir),
        "application_id": application_id,
        "goes_on": True,
        **more,
    }
    return [sys.executable, "-m", "tests.spark.counting_application", json.dumps(told)]


def _count(process: subprocess.Popen[str], settings: ClientSettings, topic: str, records: int) -> None:
    """Sends records and waits until they are counted."""
    _send(settings, topic, records)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def _send(settings: ClientSettings, topic: str, records: int) -> None:
    producer = Producer(settings.producer(enable_idempotence=True))
    for _ in range(records):
        producer.produce(topic, "v", "k")
    producer.flush()


def _jvm_of(process: int) -> int:
    threads = Path(f"/proc/{process}/task").iterdir()
    children = [child for thread in threads for child in (thread / "children").read_text().split()]
    return next(int(child) for child in children if b"java" in Path(f"/proc/{child}/cmdline").read_bytes())
