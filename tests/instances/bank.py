"""The bank with three real instances: started as users do, paid into all the time, and asked for every balance."""

from __future__ import annotations

import random
import re
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Producer

from examples.bank.pipeline import PARTITIONS, RESULTS, TRANSACTIONS, account, amount
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from tests.instances.processes import Instances, Process, balance_of, free_ports, wait_until
from tests.spark.running import read_all

ACCOUNTS = [f"account-{number}" for number in range(12)]
_PAUSE_SECONDS = 0.01
_FLUSH_SECONDS = 60.0
_FOLLOWS = re.compile(r"Follows balances/(\d+) from offset (\d+)")


class Bank:
    """Three instances on one Kafka, and what is to be in each account."""

    def __init__(self, kafka: EmbeddedKafka, directory: Path) -> None:
        self.state_dir = directory / "state"
        self.processes = [Process(port, directory) for port in free_ports(PARTITIONS)]
        self.instances = Instances(self.processes)
        *self.leaders, self.server = self.processes
        """Those that may run the pipeline, and one that only ever serves."""
        self.expected: Counter[str] = Counter()
        """By account, what was paid in."""
        self._settings = ClientSettings(kafka.bootstrap_servers)
        self._producer = Producer(self._settings.producer(partitioner="murmur2_random", enable_idempotence=True))
        self._random = random.Random(1)

    # --- instances ---------------------------------------------------------------------------------------------

    def run(self, process: Process) -> None:
        """Starts an instance that may lead."""
        process.start(*self._command("run", process), "--create-topics", "--partitions", str(PARTITIONS))

    def serve(self, process: Process) -> None:
        """Starts an instance that only serves."""
        process.start(*self._command("serve", process))

    def run_alone(self, process: Process) -> None:
        """Starts the application as one that knows of no instances."""
        options = ["--state-dir", str(self.state_dir), "--log-file", str(process.log)]
        process.start("-m", "headrace", "run", "examples.bank:topology", *options)

    def settle(self) -> None:
        """Has all instances run, each with a partition of its own."""
        for process in self.leaders:
            if not process.is_running:
                self.run(process)
        # The one that only serves does not make the topics.
        wait_until(lambda: any(process.is_ready for process in self.leaders), "a first instance is ready")
        if not self.server.is_running:
            self.serve(self.server)
        wait_until(lambda: all(process.is_ready for process in self.processes), "all instances are ready")
        wait_until(lambda: self.instances.agree(1), "each instance owns a partition, and all agree on that")

    def others(self, process: Process) -> Instances:
        """The instances without one."""
        return Instances([each for each in self.processes if each is not process])

    def leader(self) -> Process:
        """The instance that runs the pipeline."""
        found: list[Process | None] = []

        def is_known() -> bool:
            found.append(self.instances.leader())
            return found[-1] is not None

        wait_until(is_known, "all agree on who leads")
        assert found[-1] is not None
        return found[-1]

    def clean_up(self) -> None:
        """Ends whatever is left."""
        for process in self.processes:
            process.clean_up()

    # --- payments ----------------------------------------------------------------------------------------------

    def pay(self, id: str, change: int) -> None:
        """Pays into an account."""
        self.expected[id] += change
        self._producer.produce(TRANSACTIONS, amount.serialize(change), account.serialize(id))
        self._producer.poll(0)

    def pay_some(self, count: int) -> None:
        """Pays into all accounts."""
        for number in range(count):
            self.pay(ACCOUNTS[number % len(ACCOUNTS)], self._random.randint(1, 100))
        assert self._producer.flush(_FLUSH_SECONDS) == 0

    def await_payment(self, process: Process) -> float:
        """Pays into an account that nobody had before; answers how long it took until an instance told of it."""
        id = f"new-{uuid.uuid4().hex[:8]}"
        self.pay(id, 1)
        return wait_until(lambda: balance_of(process, id) == 1, f"{process} tells of a payment made now")

    def poison(self) -> None:
        """Puts in a transaction that nobody can read."""
        self._producer.produce(TRANSACTIONS, b"?", b"account-0")
        assert self._producer.flush(_FLUSH_SECONDS) == 0

    @contextmanager
    def payments(self) -> Iterator[None]:
        """Pays into the accounts without a break."""
        over = threading.Event()

        def flow() -> None:
            while not over.wait(_PAUSE_SECONDS):
                self.pay(self._random.choice(ACCOUNTS), self._random.randint(1, 100))

        thread = threading.Thread(target=flow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        assert self._producer.flush(_FLUSH_SECONDS) == 0

    # --- balances ----------------------------------------------------------------------------------------------

    def await_balances(self, instances: Instances | None = None) -> None:
        """Waits until each instance knows all balances; one that is too high never will."""
        asked = self.instances if instances is None else instances
        keys = sorted(self.expected)
        wait_until(
            lambda: all(each == dict(self.expected) for each in asked.balances(keys)),
            f"the balances are {dict(sorted(self.expected.items()))}",
        )

    def check_history(self) -> None:
        """Sees that every balance ever written is higher than the one before, up to the right one."""
        written: dict[str, list[int]] = {}
        for key, value, _, _ in read_all(self._settings, RESULTS):
            written.setdefault(account.deserialize(key) or "", []).append(amount.deserialize(value) or 0)
        falling = {id: each for id, each in written.items() if any(b <= a for a, b in pairwise(each))}
        assert not falling
        assert {id: each[-1] for id, each in written.items()} == dict(self.expected)

    def _command(self, command: str, process: Process) -> Sequence[str]:
        options = ["--port", str(process.port), "--state-dir", str(self.state_dir), "--log-file", str(process.log)]
        return ["-m", "headrace", command, "examples.bank:topology", *options]


def followed_in(log: str) -> dict[int, int]:
    """By partition, the offset from which it was followed, as a log has it."""
    return {int(partition): int(offset) for partition, offset in reversed(_FOLLOWS.findall(log))}
