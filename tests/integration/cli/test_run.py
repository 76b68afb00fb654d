"""The command as a user runs it: a process of its own, on the embedded Kafka."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec

COUNTS = """
from headrace import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder

text, number = Serdes.string(), Serdes.long()

def topology():
    builder = StreamsBuilder()
    orders = builder.stream("cli-orders", Consumed(key=text, value=text)).group_by_key(Grouped(key=text, value=text))
    counts = orders.count(Materialized("counts", key=text, value=number))
    counts.to_stream().to("cli-counts", Produced(key=text, value=number))
    return builder.build()
"""
_PATIENCE_SECONDS = 600.0


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """The broker that the commands share with the tests, as they name the same directory."""
    with EmbeddedKafka(tmp_path_factory.mktemp("state"), port=0) as kafka:
        yield kafka


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "shop_counts.py").write_text(COUNTS)
    return tmp_path


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_APP")}


def headrace(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace", *arguments]
    return subprocess.run(
        command,
        cwd=directory,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )


@contextmanager
def running(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`headrace run` as a process; one that hangs is killed, which ends its output."""
    command = [sys.executable, "-m", "headrace", "run", *arguments]
    process = subprocess.Popen(
        command, cwd=directory, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    patience = threading.Timer(_PATIENCE_SECONDS, process.kill)
    patience.start()
    try:
        yield process
    finally:
        patience.cancel()
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str], *words: str) -> str:
    """The first line with all the words in it."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if all(word in line for word in words):
            return line
    raise AssertionError(f"no line has {words}:\n{seen}")


def test_an_application_runs_is_listed_and_taken_back_to_the_beginning(directory: Path, kafka: EmbeddedKafka) -> None:
    state = kafka.state_dir
    place = ("--state-dir", str(state))
    topology = "shop_counts:topology"
    with running(directory, topology, *place, "--create-topics", "--partitions", "2") as process:
        read_until(process, "Source: KSTREAM-SOURCE-0000000000 (topics: [cli-orders])")
        read_until(process, "Created with 2 partitions: cli-orders, cli-counts")
        read_until(process, "RUNNING")
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2_random"})
        for number in range(5):
            producer.produce("cli-orders", f"order {number}", f"store {number % 2}")
        assert producer.flush(_PATIENCE_SECONDS) == 0
        read_until(process, "RUNNING | 5 records |", "stores counts 2")

        refused = headrace(directory, "reset", topology, *place, "--yes")
        assert (refused.returncode, refused.stderr) == (
            1,
            "The application shop_counts is running: stop it first. Nothing was touched.\n",
        )

        process.send_signal(signal.SIGTERM)
        asked = time.monotonic()
        read_until(process, "Stopped: 5 records in,", "out, in")
        assert process.wait(10) == 0
        assert time.monotonic() - asked < 10

    assert "WARN" in (state / "logs" / "shop_counts.log").read_text()

    listed = headrace(directory, "topics", topology, *place)
    assert listed.returncode == 0
    assert listed.stdout.splitlines() == [
        "TOPIC\tKIND\tPARTITIONS\tLAG",
        "cli-orders\tsource\t2\t0",
        "cli-counts\tsink\t2\t-",
        "shop_counts-commits\tinternal\t1\t-",
        "shop_counts-counts-changelog\tinternal\t2\t-",
    ]

    done = headrace(directory, "reset", "--application-id", "shop_counts", *place, "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("shop_counts is at the beginning. What it wrote to its output topics stays.\n")
    topics = Topics(ClientSettings(kafka.bootstrap_servers))
    assert not [name for name in topics.describe() if name.startswith("shop_counts-")]
    assert {each.committed for each in topics.lag("shop_counts", ["cli-orders"])} == {None}
    assert list((state / "copies").iterdir()) == []


def test_a_kafka_that_goes_away_is_told_of_and_waited_for(directory: Path, kafka: EmbeddedKafka) -> None:
    Topics(ClientSettings(kafka.bootstrap_servers)).create([TopicSpec("away-orders", 1), TopicSpec("away-counts", 1)])
    (directory / "away.py").write_text(COUNTS.replace("cli-", "away-"))
    log = directory / "away.log"
    place = ("--state-dir", str(kafka.state_dir), "--log-file", str(log), "--log-level", "debug")
    endpoint = kafka.endpoint
    assert endpoint is not None and endpoint.broker is not None
    with running(directory, "away:topology", *place) as process:
        read_until(process, "RUNNING |")
        os.kill(endpoint.broker, signal.SIGSTOP)
        try:
            read_until(process, f"REBALANCING, waiting for Kafka at {kafka.bootstrap_servers} |")
        finally:
            os.kill(endpoint.broker, signal.SIGCONT)
        read_until(process, "RUNNING |")
        process.send_signal(signal.SIGTERM)
        read_until(process, "Stopped: 0 records in")
        assert process.wait(_PATIENCE_SECONDS) == 0
    said = log.read_text()
    assert said.count("the application waits and goes on by itself.") == 1
    assert said.count("Kafka answers again; the application goes on.") == 1
    assert "INFO DAGScheduler" in said, "Spark's log follows --log-level"


def test_the_last_dead_letters_are_shown(directory: Path, kafka: EmbeddedKafka) -> None:
    Topics(ClientSettings(kafka.bootstrap_servers)).create([TopicSpec("cli-dead", 2)])
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    headers = [("__streams.errors.exception", b"ValueError"), ("__streams.errors.message", b"no price")]
    for number in range(3):
        producer.produce("cli-dead", f"letter {number}", "k", headers=headers, timestamp=1_000 + number)
    assert producer.flush(_PATIENCE_SECONDS) == 0

    shown = headrace(directory, "dlq", "cli-dead", "--limit", "1", "--bootstrap-servers", kafka.bootstrap_servers)

    assert shown.returncode == 0
    assert shown.stdout.splitlines()[1:] == ["  key    k", "  value  letter 2", "  error  ValueError: no price"]


def test_a_missing_topic_is_named_and_the_traceback_is_in_the_log(directory: Path, kafka: EmbeddedKafka) -> None:
    servers = kafka.bootstrap_servers
    (directory / "elsewhere.py").write_text(COUNTS.replace("cli-orders", "cli-missing"))

    missing = headrace(directory, "run", "elsewhere:topology", "--bootstrap-servers", servers, "--state-dir", "state")

    assert missing.returncode == 1
    assert missing.stderr.startswith(f"Kafka at {servers} has no topic cli-missing, which the topology reads.")
    assert "--create-topics" in missing.stderr
    assert "Traceback" not in missing.stderr
    assert "Traceback" in (directory / "state" / "logs" / "elsewhere.log").read_text()


def test_a_kafka_that_does_not_answer_is_named(directory: Path) -> None:
    silent = headrace(
        directory, "run", "shop_counts:topology", "--bootstrap-servers", "localhost:1", "--state-dir", "state"
    )

    assert silent.returncode == 1
    assert silent.stderr.startswith("Kafka at localhost:1 did not answer as it should:")
    assert "Traceback" not in silent.stderr


def test_the_console_script_is_the_command(directory: Path) -> None:
    script = Path(sys.executable).with_name("headrace")
    helped = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False)
    assert helped.returncode == 0, helped.stderr
    assert "Run a topology until it is stopped" in helped.stdout
    described = subprocess.run(
        [script, "describe", "shop_counts:topology"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    assert described.stdout == headrace(directory, "describe", "shop_counts:topology").stdout


@pytest.mark.parametrize(
    ("version", "told"), [(None, "no Java was found"), ("11.0.2", "java is Java 11")], ids=["missing", "too old"]
)
def test_java_missing_or_too_old(directory: Path, version: str | None, told: str) -> None:
    home = directory / "java"
    if version is not None:
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        (home / "bin" / "java").chmod(0o755)
    hide = " && ".join(f"mount -t tmpfs tmpfs {root}" for root in ("/usr/lib/jvm",) if Path(root).exists())
    script = f'{hide or "true"} && exec "$0" -m headrace run shop_counts:topology --state-dir state'
    hidden = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", script, sys.executable],
        cwd=directory,
        env={**environment(), "JAVA_HOME": str(home), "PATH": "/usr/sbin:/sbin:/bin:/usr/bin"},
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    if "mount" in hidden.stderr or "unshare" in hidden.stderr:
        pytest.skip(f"Java cannot be hidden here: {hidden.stderr}")
    assert hidden.returncode == 1
    assert hidden.stderr.startswith("Java 17 or 21 is needed: ")
    assert told in hidden.stderr
    assert "set JAVA_HOME" in hidden.stderr
    assert "Traceback" not in hidden.stderr
