"""The application with three real instances, and the orders that flow through it."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Producer

from headrace.kafka.clients import ClientSettings
from tests.histories import application
from tests.histories.application import CLOCK_JUMPS
from tests.histories.checker import Committed
from tests.histories.orders import PARTITIONS, REVENUE, SOURCE, STORES, Expected, random_order
from tests.instances.processes import Instances, Process, free_ports, wait_until

INSTANCES = 3
ORDERS_A_SECOND = 100.0
_FLUSH_SECONDS = 60.0


class Shop:
    """Three instances on one Kafka: two that may run the pipeline, and one that only ever serves."""

    def __init__(
        self,
        servers: str,
        directory: Path,
        chance: random.Random,
        *,
        instances_servers: str | None = None,
        orders_a_second: float = ORDERS_A_SECOND,
    ) -> None:
        """`instances_servers` is how instances reach Kafka, where that is another way."""
        self.settings = ClientSettings(servers)
        self.processes = [Process(port, directory) for port in free_ports(INSTANCES)]
        self.expected = Expected()
        self.server = self.processes[-1]
        """The one that only serves."""
        self._instances = Instances(self.processes)
        self.state_dir = directory / "instances"
        self._instances_servers = instances_servers or servers
        self._pause_seconds = 1 / orders_a_second
        self._producer = Producer(self.settings.producer(partitioner="murmur2_random", enable_idempotence=True))
        self._chance = chance

    @property
    def addresses(self) -> list[str]:
        """Those of all instances."""
        return [process.address for process in self.processes]

    # --- instances ---------------------------------------------------------------------------------------------

    def start(self, process: Process, *, clock_jumps: bool = False) -> None:
        """Starts an instance, as if on a machine of its own."""
        command = ["serve"] if process is self.server else ["run", "--create-topics", "--partitions", str(PARTITIONS)]
        options = ["--bootstrap-servers", self._instances_servers, "--state-dir", str(self.state_of(process))]
        options += ["--port", str(process.port), "--log-file", str(process.log)]
        before = [CLOCK_JUMPS] if clock_jumps else []
        process.start("-m", application.__name__, *before, *command, "tests.histories.orders:topology", *options)

    def state_of(self, process: Process) -> Path:
        """What an instance has on its disk."""
        return self.state_dir / str(process.port)

    def settle(self) -> None:
        """Has all instances run, each with its share of the partitions and known to the others."""
        for process in self.processes:
            if process is not self.server and not process.is_running:
                self.start(process)
        # The one that only serves does not make the topics.
        wait_until(lambda: any(process.is_ready for process in self.processes[:-1]), "a first instance is ready")
        if not self.server.is_running:
            self.start(self.server)
        wait_until(lambda: all(process.is_ready for process in self.processes), "all instances are ready")
        wait_until(self._agree, "the partitions are shared out, and all instances agree on that")

    def leader(self) -> Process | None:
        """The instance that runs the pipeline, as one of them says."""
        for process in self.processes:
            answer = process.ask("/v1/instances") if process.is_running else None
            if answer is not None and answer.status_code == 200:
                leader = answer.json()["leader"]
                return next((each for each in self.processes if each.address == leader and each.is_running), None)
        return None

    def die_in_transaction(self, process: Process) -> None:
        """Has an instance that leads die in the middle of its next transaction."""
        process.signal(signal.SIGUSR2)
        wait_until(lambda: not process.is_running, f"{process} has died in a transaction")

    def clean_up(self) -> None:
        """Ends whatever is left."""
        for process in self.processes:
            process.clean_up()

    def _agree(self) -> bool:
        views = self._instances.views()
        if any(view != views[0] or not view for view in views) or views[0]["leader"] not in self.addresses:
            return False
        instances = views[0]["instances"]
        if [each["address"] for each in instances] != sorted(self.addresses):
            return False
        shares = [
            [(store, number) for store, owned in each["partitions"].items() for number in owned] for each in instances
        ]
        everything = sorted((store, number) for store in STORES for number in range(PARTITIONS))
        return sorted(chain.from_iterable(shares)) == everything and all(shares)

    # --- orders ------------------------------------------------------------------------------------------------

    @contextmanager
    def orders(self) -> Iterator[None]:
        """Sends orders without a break meanwhile."""
        over = threading.Event()

        def flow() -> None:
            while not over.wait(self._pause_seconds):
                order = random_order(self._chance)
                self.expected.add(order)
                self._producer.produce(SOURCE, order.value, order.key)
                self._producer.poll(0)

        thread = threading.Thread(target=flow, name="orders", daemon=True)
        thread.start()
        try:
            wait_until(lambda: all(_revenues(process) for process in self.processes), "every instance tells a revenue")
            yield
        finally:
            over.set()
            thread.join()
        assert self._producer.flush(_FLUSH_SECONDS) == 0

    def await_orders(self, seconds: float) -> None:
        """Waits until every instance tells the revenue that all orders together make."""
        last = {location: sums[-1] for location, sums in self.expected.revenue.items() if sums}
        wait_until(
            lambda: all(_revenues(process) == last for process in self.processes),
            f"the revenues are {last}",
            seconds,
        )

    def inexact(self, committed: Committed) -> list[str]:
        """The locations whose revenue was not updated once for each order, in their order."""
        found: dict[str, list[tuple[int, int]]] = {}
        for partition in range(PARTITIONS):
            for record in committed.logs[REVENUE, partition].records:
                assert record.value is not None
                sums: dict[str, Any] = msgspec.json.decode(record.value.text)
                found.setdefault(record.place.key, []).append((sums["orders"], sums["cents"]))
        expected = {location: sums for location, sums in self.expected.revenue.items() if sums}
        return sorted(each for each in found.keys() | expected.keys() if found.get(each) != expected.get(each))


def _revenues(process: Process) -> dict[str, tuple[int, int]] | None:
    answer = process.ask(f"/v1/stores/{REVENUE}/keys", limit=1000)
    if answer is None or answer.status_code != 200 or not answer.json()["complete"]:
        return None
    return {each["key"]: (each["value"]["orders"], each["value"]["cents"]) for each in answer.json()["entries"]}
