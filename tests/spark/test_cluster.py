"""An application on a real cluster, one worker of which is killed while it runs."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace import Serdes, StreamsConfig, Topology
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec
from headrace.testing import TopologyTestDriver
from tests.spark.cluster import Cluster, Daemon, until

ORDERS, OUTPUTS = "shop.orders", ("shop.spent", "shop.sold")
PARTITIONS = 3
CUSTOMERS, PRODUCTS = 12, 5

Order = tuple[str, dict[str, Any], int]
Sequences = dict[tuple[str, str], list[int]]


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with the user's modules, which this process and the application's driver can import."""
    here = Path(__file__).parent
    shutil.copytree(here / "shop", tmp_path / "code" / "shop", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "more").mkdir()
    shutil.copy(here / "prices.py", tmp_path / "more")
    for directory in ("code", "more"):
        monkeypatch.syspath_prepend(tmp_path / directory)
    yield tmp_path / "code"
    for name in [name for name in sys.modules if name == "prices" or name.partition(".")[0] == "shop"]:
        del sys.modules[name]


class Application:
    """`headrace run` on a cluster, in a process of its own."""

    def __init__(self, code: Path, cluster: Cluster, servers: str, state_dir: Path) -> None:
        self.state_dir = state_dir
        state_dir.mkdir()
        self._printed = state_dir / "printed"
        command = ["run", "shop.totals:topology", "--application-id", "shop", "--bootstrap-servers", servers]
        command += ["--master", cluster.master, "--state-dir", str(state_dir)]
        command += ["--py-files", str(code.parent / "more/prices.py")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headrace", *command],
            cwd=code,
            env={
                **os.environ,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "HEADRACE_SPARK": json.dumps(cluster.settings),
                "HEADRACE_CACHE_MAX_BYTES": "0",
            },
            stdout=self._printed.open("wb"),
            stderr=subprocess.STDOUT,
        )

    @property
    def log(self) -> str:
        """What the application has logged."""
        return (self.state_dir / "logs" / "shop.log").read_text()

    def check(self) -> None:
        """Fails with what the application has printed if it has ended."""
        assert self._process.poll() is None, self._printed.read_text()

    def stop(self) -> None:
        """Ends the application as a user would."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(120) == 0, self._printed.read_text()

    def kill(self) -> None:
        """Ends the application in any case."""
        self._process.kill()
        self._process.wait()


def test_a_worker_is_killed_while_it_works(embedded_kafka: EmbeddedKafka, tmp_path: Path, code: Path) -> None:
    servers = embedded_kafka.bootstrap_servers
    settings = ClientSettings(servers)
    topics = Topics(settings)
    topics.create([TopicSpec(name, PARTITIONS) for name in (ORDERS, *OUTPUTS)])
    gate = tmp_path / "gate"
    gate.mkdir()
    waves = [orders(0), [*orders(1), held_order(gate)], orders(2)]

    def process(application: Application, wave: list[Order]) -> None:
        send(settings, wave)
        await_processed(topics, application)

    with Cluster(tmp_path / "cluster") as cluster:
        first = Application(code, cluster, servers, tmp_path / "first")
        try:
            process(first, waves[0])
            send(settings, waves[1])
            victim = worker_that_waits(cluster, gate, first)
            killed = victim.kill()
            assert len(killed) > 2, "the worker had neither an executor nor Python at work"
            (gate / "open").touch()
            await_processed(topics, first)
            first.stop()
        finally:
            first.kill()
        # Another driver, on a machine that has nothing of the first one's: all there is, is in Kafka.
        second = Application(code, cluster, servers, tmp_path / "second")
        try:
            process(second, waves[2])
            second.stop()
        finally:
            second.kill()
        assert "rebuilt from the changelogs" in second.log
    module = importlib.import_module("shop.totals")
    assert written(settings) == expected(module.topology(), [order for wave in waves for order in wave])


def orders(wave: int) -> list[Order]:
    """Orders of all customers, seconds apart."""
    return [
        (
            f"customer-{number % CUSTOMERS}",
            {"product": "p" * (1 + number % PRODUCTS), "amount": 1 + number % 7},
            1_700_000_000_000 + 1000 * (wave * 200 + number),
        )
        for number in range(200)
    ]


def held_order(gate: Path) -> Order:
    """An order that waits until the gate is open."""
    return "customer-0", {"product": "p", "amount": 1, "gate": str(gate)}, 1_700_000_500_000


def send(settings: ClientSettings, wave: list[Order]) -> None:
    producer = Producer(settings.producer(enable_idempotence=True))
    for customer, order, timestamp in wave:
        producer.produce(ORDERS, json.dumps(order), customer, timestamp=timestamp)
    producer.flush()


def await_processed(topics: Topics, application: Application) -> None:
    """Returns when all orders are processed and committed."""

    def nothing_left() -> bool:
        application.check()
        lags = topics.lag("shop", [ORDERS])
        return len(lags) == PARTITIONS and all(each.committed is not None and each.lag == 0 for each in lags)

    until(nothing_left, "the application's commits")


def worker_that_waits(cluster: Cluster, gate: Path, application: Application) -> Daemon:
    """The worker on which the order waits that holds up the batch."""

    def look() -> Daemon | None:
        application.check()
        if not (gate / "held-by").exists():
            return None
        disk = (gate / "held-by").read_text()
        return next(worker for worker in cluster.workers if disk.startswith(str(worker.directory)))

    return until(look, "the order that waits")


def written(settings: ClientSettings) -> Sequences:
    """By topic and key, all committed values in their order."""
    consumer = Consumer(
        settings.consumer(
            **{"group.id": "shop-reader", "isolation.level": "read_committed", "enable.partition.eof": True}
        )
    )
    places = [TopicPartition(topic, partition, 0) for topic in OUTPUTS for partition in range(PARTITIONS)]
    consumer.assign(places)
    found: Sequences = {}
    open_ends = len(places)
    while open_ends:
        message = consumer.poll(60)
        assert message is not None, "a topic does not end"
        if message.error() is not None:
            open_ends -= 1
            continue
        key, value = (message.key() or b"").decode(), int.from_bytes(message.value() or b"", "big")
        found.setdefault((message.topic() or "", key), []).append(value)
    consumer.close()
    return found


def expected(topology: Topology, sent: list[Order]) -> Sequences:
    """The same of the test driver."""
    text, number = Serdes.string(), Serdes.long()
    found: Sequences = {}
    with TopologyTestDriver(topology, StreamsConfig(cache_max_bytes=0), initial_wall_clock=0) as driver:
        source = driver.input_topic(ORDERS, key=text, value=Serdes.json())
        for customer, order, timestamp in sent:
            source.pipe(customer, order, timestamp=timestamp)
        for topic in OUTPUTS:
            for record in driver.output_topic(topic, key=text, value=number).read_all():
                found.setdefault((topic, record.key), []).append(record.value)
    return found
