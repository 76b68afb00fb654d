"""Three real brokers, each of which may be killed, stopped or restarted, behind a network that may be bad."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.kafka.broker import Broker, is_free, new_cluster_id, prepare_data
from headrace.kafka.home import HOST, Given, Home
from headrace.kafka.jars import BROKER, resolve
from headrace.kafka.java import find_java
from headrace.kafka.locks import Lock
from tests.chaos.network import Network

BROKERS = 3
_PORTS = range(20_000, 32_000)
"""Not those that the kernel takes for outgoing connections: such a port may be taken while its broker is away."""
_PATIENCE_SECONDS = 180.0
_ANSWER_SECONDS = 2.0
_POLL_SECONDS = 0.1


class KafkaCluster:
    """A cluster of three; each broker is a controller too. Its records are on all three and need two to be written.

    It has to be used in one thread that lasts: the kernel ends a broker together with the thread that started it.

        with KafkaCluster(directory) as cluster:
            cluster.kill(0)
    """

    def __init__(self, directory: Path) -> None:
        java, jars = find_java().path, resolve(BROKER)
        ports = _free_ports(3 * BROKERS)
        own, clients, controllers = ports[:BROKERS], ports[BROKERS : 2 * BROKERS], ports[2 * BROKERS :]
        self.network = Network(clients)
        """What clients go through that are given `proxied_servers`."""
        voters = ",".join(f"{number + 1}@{HOST}:{port}" for number, port in enumerate(controllers))
        self._nodes = [
            _Node(
                Home.of(directory / f"broker-{number + 1}"),
                java,
                jars,
                own[number],
                _settings(number + 1, voters, own[number], clients[number], proxy, controllers[number]),
            )
            for number, proxy in enumerate(self.network.ports)
        ]

    @property
    def bootstrap_servers(self) -> str:
        """The brokers themselves."""
        return _addresses(node.port for node in self._nodes)

    @property
    def proxied_servers(self) -> str:
        """The brokers for clients that reach them through the network, and only through it."""
        return _addresses(self.network.ports)

    def servers(self, brokers: Iterable[int]) -> str:
        """Some of the brokers themselves."""
        return _addresses(self._nodes[broker].port for broker in brokers)

    def leader_of(self, topic: str) -> int:
        """The broker that leads the first partition of a topic."""
        found = self._nodes[0].describe()
        assert found is not None
        leader: int = found.topics[topic].partitions[0].leader
        return leader - 1

    @property
    def log_files(self) -> list[Path]:
        """The brokers' logs."""
        return [node.home.log for node in self._nodes]

    def __enter__(self) -> KafkaCluster:
        cluster_id = new_cluster_id()
        try:
            with ThreadPoolExecutor(BROKERS) as pool:
                list(pool.map(lambda node: node.format(cluster_id), self._nodes))
            for node in self._nodes:
                node.start()
            self.await_whole()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the brokers and the network."""
        for node in self._nodes:
            node.kill()
        self.network.close()

    # --- what may happen to a broker -----------------------------------------------------------------------------

    def kill(self, broker: int) -> None:
        """Kills a broker."""
        self._nodes[broker].kill()

    def stop(self, broker: int) -> None:
        """Has a broker stand still."""
        self._nodes[broker].signal(signal.SIGSTOP)

    def go_on(self, broker: int) -> None:
        """Has a broker that stands still go on."""
        self._nodes[broker].signal(signal.SIGCONT)

    def shut_down(self, broker: int) -> None:
        """Ends a broker in good order: it hands over what it leads."""
        self._nodes[broker].shut_down()

    def start(self, broker: int) -> None:
        """Starts a broker that has ended."""
        self._nodes[broker].start()

    def await_without(self, broker: int) -> None:
        """Waits until the others go on without a broker: all that it has led is led by them."""
        others = [node for number, node in enumerate(self._nodes) if number != broker]
        self._await(others, lambda found: _is_without(found, broker + 1), f"do without broker {broker + 1}")

    def await_whole(self) -> None:
        """Waits until every broker has all that it should have, and all of them know it."""
        self._await(self._nodes, _is_whole, "become whole")

    def _await(self, nodes: Iterable[_Node], done: Any, what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not all((found := node.describe()) is not None and done(found) for node in nodes):
            assert time.monotonic() < deadline, f"the brokers do not {what}: see {self.log_files}"
            time.sleep(_POLL_SECONDS)


class _Node:
    """One of the brokers, whether it runs or not."""

    def __init__(self, home: Home, java: Path, jars: list[Path], port: int, settings: dict[str, str]) -> None:
        self.home = home
        self.port = port
        self._java = java
        self._jars = jars
        self._settings = settings
        self._broker: Broker | None = None
        home.directory.mkdir(parents=True)

    def format(self, cluster_id: str) -> None:
        prepare_data(self.home, self._java, self._jars, self._settings, cluster_id)

    def start(self) -> None:
        assert self._broker is None
        lock = Lock.on(self.home.broker_lock)
        lock.own()
        self._broker = Broker(self.home, self._java, self._jars, self.port, lock, Given(self._settings))

    def kill(self) -> None:
        if self._broker is not None:
            os.kill(self._broker.pid, signal.SIGKILL)
            self._broker.wait()
            self._broker = None

    def shut_down(self) -> None:
        assert self._broker is not None
        self._broker.stop()
        self._broker = None

    def signal(self, sign: int) -> None:
        assert self._broker is not None
        os.kill(self._broker.pid, sign)

    def describe(self) -> Any:
        """The cluster as this broker sees it, None if it does not answer."""
        # A new client each time: one that knows the other brokers would ask these too.
        admin = AdminClient({"bootstrap.servers": f"{HOST}:{self.port}", "log_level": 0})
        try:
            return admin.list_topics(timeout=_ANSWER_SECONDS)
        except KafkaException:
            return None


def _is_whole(found: Any) -> bool:
    partitions = [partition for topic in found.topics.values() for partition in topic.partitions.values()]
    in_sync = all(sorted(each.isrs) == sorted(each.replicas) and each.leader >= 0 for each in partitions)
    return len(found.brokers) == BROKERS and in_sync


def _is_without(found: Any, node_id: int) -> bool:
    partitions = [partition for topic in found.topics.values() for partition in topic.partitions.values()]
    return node_id not in found.brokers and all(each.leader not in (-1, node_id) for each in partitions)


def _settings(
    node_id: int, voters: str, own_port: int, client_port: int, proxy_port: int, controller_port: int
) -> dict[str, str]:
    """What a broker of three has other settings for than the embedded one, which is alone."""
    return {
        "node.id": str(node_id),
        "controller.quorum.voters": voters,
        "listeners": ",".join(
            f"{name}://{HOST}:{port}"
            for name, port in (("PLAINTEXT", own_port), ("CLIENTS", client_port), ("CONTROLLER", controller_port))
        ),
        # Who comes through a proxy is told of the proxies only; brokers reach each other without one.
        "advertised.listeners": f"PLAINTEXT://{HOST}:{own_port},CLIENTS://{HOST}:{proxy_port}",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "min.insync.replicas": str(BROKERS - 1),
        "offsets.topic.replication.factor": str(BROKERS),
        "transaction.state.log.replication.factor": str(BROKERS),
        "transaction.state.log.min.isr": str(BROKERS - 1),
        # Kafka's own.
        "broker.session.timeout.ms": "9000",
        "broker.heartbeat.interval.ms": "2000",
    }


def _addresses(ports: Iterable[int]) -> str:
    return ",".join(f"{HOST}:{port}" for port in ports)


def _free_ports(count: int) -> list[int]:
    chance = random.SystemRandom()
    found: set[int] = set()
    while len(found) < count:
        port = chance.choice(_PORTS)
        if is_free(port):
            found.add(port)
    return list(found)
