"""A stage for tests of the service: stores whose changelogs are written by test drivers, and instances over them.

One driver stands for the task of one partition. What it writes to changelogs goes to the same partition of the real
topics, in transactions, as the engine would write it. The drivers' own stores are the truth.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Producer

from headrace import StreamsConfig, Topology
from headrace.kafka.clients import ClientSettings
from headrace.kafka.internal_topics import prepare_topics
from headrace.kafka.partitions import source_topics
from headrace.kafka.topics import Topics, TopicSpec
from headrace.serdes.hashing import partition_for_key
from headrace.serving.config import ServingConfig
from headrace.serving.peers import APPLICATION_HEADER
from headrace.serving.queries import GET, Answer, Query, answer_locally
from headrace.serving.rest.app import make_app
from headrace.serving.rest.server import HttpServer
from headrace.serving.rest.subscriptions import Subscribers
from headrace.serving.service import Service
from headrace.serving.views import AsyncStore, Store, runner_on
from headrace.testing import TopologyTestDriver
from headrace.topology.nodes import SourceNode

TIMEOUT = 300.0
"""Longer than anything here takes, also beside other tests on two cores."""


def wait_until(holds: Callable[[], Any], what: str, timeout: float = TIMEOUT) -> None:
    """Waits for something that other threads bring about."""
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        time.sleep(0.02)


class Running:
    """An instance with its HTTP server."""

    def __init__(self, stage: Stage, serving: ServingConfig, **options: Any) -> None:
        self.server = HttpServer(serving)
        self.address = self.server.address
        self.service = Service.of(
            stage.topology,
            stage.config,
            serving,
            stage.settings,
            stage.directory / "state",
            address=self.address,
            **options,
        )
        self.instance = self.service.instance
        self.instance.start()
        app = make_app(self.service)
        self.subscribers: Subscribers = app.state.subscribers
        self.server.start(app)
        self.is_closed = False

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    @property
    def requests(self) -> int:
        """How many requests are being worked on."""
        assert self.server._server is not None
        return len(self.server._server.server_state.tasks)

    def signed(self, method: str, path: str, body: bytes = b"") -> dict[str, str]:
        """The headers of a peer's request, which are good for one."""
        signer = self.service.peers._signer
        return {APPLICATION_HEADER: self.service.application_id, **signer.sign(self.address, method, path, body)}

    def store(self, name: str) -> Store:
        """The store as Python programs of the process ask it."""
        assert self.server.loop is not None
        return Store(self.async_store(name), runner_on(self.server.loop))

    def async_store(self, name: str) -> AsyncStore:
        """The store as asynchronous programs ask it."""
        return AsyncStore(self.service.reader, name)

    def run(self, coroutine: Any) -> Any:
        """Runs a coroutine where requests are worked on."""
        assert self.server.loop is not None
        return runner_on(self.server.loop)(coroutine)

    def close(self) -> None:
        """Leaves the others, as an instance does that is told to end."""
        if not self.is_closed:
            self.is_closed = True
            self.service.closing.set()
            self.server.close()
            self.instance.close()

    def vanish(self) -> None:
        """Answers nobody any more; the others do not know yet."""
        self.server.close()


class Stage:
    """An application on a real Kafka."""

    def __init__(
        self, topology: Topology, bootstrap_servers: str, directory: Path, *, partitions: int = 3, standbys: int = 0
    ) -> None:
        self.topology = topology
        self.partitions = partitions
        self.directory = directory
        self.settings = ClientSettings(bootstrap_servers)
        self.config = StreamsConfig(
            application_id=f"stage-{uuid.uuid4().hex[:8]}",
            bootstrap_servers=bootstrap_servers,
            num_standby_replicas=standbys,
        )
        self._global_topics = {
            topic
            for subtopology in topology.subtopologies()
            if subtopology.is_global
            for name in subtopology.nodes
            if isinstance(node := topology.nodes[name], SourceNode)
            for topic in node.topics
        }
        Topics(self.settings).ensure([TopicSpec(topic, partitions) for topic in source_topics(topology)])
        prepare_topics(topology, self.config, self.settings)
        self.drivers = [TopologyTestDriver(topology, self.config) for _ in range(partitions)]
        self._written = [0] * partitions
        self._producer = Producer(
            self.settings.producer(**{"transactional.id": self.config.application_id, "linger.ms": 5})
        )
        self._producer.init_transactions(TIMEOUT)
        self._closing = ExitStack()

    @property
    def source(self) -> str:
        """The topic that the application reads, where it is one."""
        [topic] = source_topics(self.topology)
        return topic

    def pipe(self, topic: str, records: Iterable[tuple[Any, Any, int]]) -> None:
        """Has the tasks work on records (key, value, timestamp), and commits what comes of it."""
        inputs = [driver.input_topic(topic) for driver in self.drivers]
        self._producer.begin_transaction()
        for key, value, timestamp in records:
            if topic in self._global_topics:
                self._pipe_global(topic, inputs, key, value, timestamp)
            else:
                packed = inputs[0]._serialize_key(key)
                inputs[partition_for_key(packed, self.partitions)].pipe(key, value, timestamp=timestamp)
        self._write_changelogs()
        self._producer.commit_transaction(TIMEOUT)

    def write(self, store: str, partition: int, records: Iterable[tuple[bytes, bytes | None, int]]) -> None:
        """Writes records to a changelog directly, in a transaction."""
        with self.transaction():
            for key, value, timestamp in records:
                self.produce(self.changelog(store), partition, key, value, timestamp)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is produced within is committed at its end."""
        self._producer.begin_transaction()
        yield
        self._producer.commit_transaction(TIMEOUT)

    def produce(self, topic: str, partition: int, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Produces a record within a transaction."""
        while True:
            try:
                self._producer.produce(topic, value, key, partition=partition, timestamp=timestamp)
                return
            except BufferError:
                self._producer.poll(0.1)

    def flush(self) -> None:
        """Has what was produced so far reach Kafka."""
        self._producer.flush(TIMEOUT)

    def changelog(self, store: str) -> str:
        """The name of a store's changelog."""
        return f"{self.config.application_id}-{store}-changelog"

    def start(self, serving: ServingConfig | None = None, **options: Any) -> Running:
        """Starts an instance, without waiting for what it restores."""
        running = Running(self, serving or ServingConfig(), **options)
        self._closing.callback(running.close)
        return running

    def start_all(self, count: int, **options: Any) -> list[Running]:
        """Starts several instances, and waits until the partitions are shared out among them."""
        running = [self.start(**options) for _ in range(count)]
        self.settle(running)
        return running

    def settle(self, running: list[Running]) -> None:
        """Waits until the partitions are shared out evenly, their owners up to date, and everybody knows these."""
        wait_until(lambda: self._is_settled(running), "partitions shared out and restored")

    def close(self) -> None:
        """Ends the instances and closes the drivers."""
        self._closing.close()
        for driver in self.drivers:
            driver.close()

    def _is_settled(self, running: list[Running]) -> bool:
        views = {tuple(sorted(each.instance.view.owners.items())) for each in running}
        members = {tuple(member.address for member in each.instance.view.members) for each in running}
        if len(views) != 1 or members != {tuple(sorted(each.address for each in running))}:
            return False
        owners = dict(next(iter(views)))
        shared = [store for store in running[0].instance.stores.values() if not store.is_global]
        if len(owners) != self.partitions * len(shared):
            return False
        # One that has just joined is first there with nothing.
        counts = Counter(owners.values())
        shares = [counts[each.address] for each in running]
        if max(shares) - min(shares) > 1:
            return False
        own = {
            place: each.address
            for each in running
            for store in shared
            for partition in each.instance.owned(store.name)
            for place in [(store.topic, partition)]
        }
        return own == owners and all(each.instance.is_ready and self._stands_by(each) for each in running)

    def _stands_by(self, running: Running) -> bool:
        instance = running.instance
        for store in instance.stores.values():
            for partition in range(self.partitions):
                if (
                    running.address
                    in instance.candidates(store.name, partition)[: 1 + self.config.num_standby_replicas]
                ):
                    copy = instance.copy(store.name, partition)
                    if copy is None or not copy.ready:
                        return False
        return True

    def _pipe_global(self, topic: str, inputs: list[Any], key: Any, value: Any, timestamp: int) -> None:
        for each in inputs:
            each.pipe(key, value, timestamp=timestamp)
        packed_key, packed = inputs[0]._serialize_key(key), inputs[0]._serialize_value(value)
        # Not where Kafka's default partitioner puts them: whoever writes such a topic may use another one.
        partition = sum(packed_key) % self.partitions
        self.produce(topic, partition, packed_key, packed, timestamp)

    def _write_changelogs(self) -> None:
        for partition, driver in enumerate(self.drivers):
            produced = driver.produced()
            for topic, record in produced[self._written[partition] :]:
                if topic.endswith("-changelog"):
                    self.produce(topic, partition, record.key, record.value, record.timestamp)
            self._written[partition] = len(produced)


def answer_of(running: Running) -> Answer:
    """What the instance's own copies say about a key, straight from them."""
    return answer_locally(running.instance, Query(kind=GET, store="n", partitions=(0,), keys=(b"key3",)))


def pages(client: httpx.Client, url: str, **parameters: Any) -> list[dict[str, Any]]:
    """The entries of all pages."""
    found: list[dict[str, Any]] = []
    while True:
        response = client.get(url, params=parameters)
        assert response.status_code == 200, response.text
        page = response.json()
        assert page["complete"] and page["missing"] == []
        assert len(page["entries"]) <= parameters.get("limit", 100)
        found += page["entries"]
        if page["next"] is None:
            return found
        parameters["cursor"] = page["next"]


def by_partition(stage: Stage, keys: Iterable[str]) -> dict[int, list[str]]:
    """Text keys by their partition."""
    found: dict[int, list[str]] = defaultdict(list)
    for key in keys:
        found[partition_for_key(key.encode(), stage.partitions)].append(key)
    return found
