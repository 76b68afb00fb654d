"""Whole runs: instances at work, clients that read, and in the end what was read against what was committed."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headrace.kafka.embedded import EmbeddedKafka
from tests.histories.checker import UNAVAILABLE, Violation, by_rule, check
from tests.histories.clients import PATIENT, Clients, PatientReader, RestReader
from tests.histories.history import History, Read
from tests.histories.kafka import Observer
from tests.histories.shop import Shop
from tests.histories.strikes import Strikes
from tests.instances.processes import Process, wait_until

CLIENTS = 8
_FINISH_SECONDS = 180.0


@dataclass
class Outcome:
    """What a run has found."""

    seed: object
    reads: list[Read] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    strikes: Mapping[str, int] = field(default_factory=dict)
    orders: int = 0
    inexact: list[str] = field(default_factory=list)
    """The keys that the pipeline did not update once for each order."""
    aborted: int = 0
    """How many records were written in transactions that were aborted."""
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether nothing was wrong."""
        return not self.violations and not self.inexact

    def __str__(self) -> str:
        statuses = Counter(read.status for read in self.reads)
        answered = sum(read.is_answered for read in self.reads)
        refused, silent = statuses[UNAVAILABLE], statuses[None]
        rules = ", ".join(f"{rule} {count}" for rule, count in by_rule(self.violations).items())
        strikes = ", ".join(f"{kind} {count}" for kind, count in self.strikes.items())
        return (
            f"seed {self.seed}: {len(self.reads)} reads ({answered} answered, {refused} refused, {silent} silent); "
            f"{len(self.violations)} violations ({rules}); {sum(self.strikes.values())} strikes ({strikes}); "
            f"{self.orders} orders, {len(self.inexact)} keys inexact, {self.aborted} records aborted; "
            f"{self.seconds:.0f} s"
        )


def play(kafka: EmbeddedKafka, directory: Path, seconds: float, seed: object) -> Outcome:
    """Reads while instances are struck at random."""
    with _run(kafka, directory, seed) as (shop, history, outcome):
        strikes = Strikes(shop, random.Random(f"{seed}-strikes"))
        outcome.strikes = strikes.counts
        readers = [RestReader(number, lambda: shop.addresses, history, seed) for number in range(CLIENTS)]
        outcome.violations = under_load(shop, history, outcome, readers, lambda: strikes.go_on(seconds))
    return outcome


def roll(kafka: EmbeddedKafka, directory: Path, rounds: int, seed: object) -> Outcome:
    """Restarts one instance after the other while clients read; every read has to be answered."""
    with _run(kafka, directory, seed) as (shop, history, outcome):
        restarts = Restarts(shop)
        outcome.strikes = restarts.counts
        half = CLIENTS // 2
        readers: list[Callable[[], None]] = [
            PatientReader(number, shop.addresses, history, seed) for number in range(half)
        ]
        readers += [RestReader(half + number, restarts.up, history, seed, PATIENT) for number in range(half)]

        def restart_all() -> None:
            for _ in range(rounds):
                for process in shop.processes:
                    restarts.restart(process)

        outcome.violations = under_load(shop, history, outcome, readers, restart_all, restarts.was_up)
    return outcome


class Restarts:
    """Restarts instances, and knows which were up when."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._up = list(shop.addresses)
        self._down: list[tuple[str, float, float]] = []
        self.counts: Counter[str] = Counter()

    def up(self) -> list[str]:
        """The addresses of the instances that are not being restarted."""
        return self._up

    def restart(self, process: Process) -> None:
        """Ends an instance, starts it again at its port, and waits until it says that it is ready."""
        self._up = [address for address in self._up if address != process.address]
        began = time.monotonic()
        process.terminate()
        code = process.await_end()
        assert code == 0, f"{process} ended with {code}:\n{process.printed()[-3000:]}"
        self._shop.start(process)
        wait_until(lambda: process.is_ready, f"{process} is ready")
        self._down.append((process.address, began, time.monotonic()))
        self._up = [*self._up, process.address]
        self.counts["restart"] += 1

    def was_up(self, read: Read) -> bool:
        """Whether the instance that was asked was there all the time; of those that ask any, some always is."""
        return not any(
            read.instance == address and read.sent < until and since < read.received
            for address, since, until in self._down
        )


@contextmanager
def _run(kafka: EmbeddedKafka, directory: Path, seed: object) -> Iterator[tuple[Shop, History, Outcome]]:
    began = time.monotonic()
    outcome = Outcome(seed)
    shop = Shop(kafka.bootstrap_servers, directory, random.Random(f"{seed}-orders"))
    try:
        shop.settle()
        yield shop, History(), outcome
    finally:
        shop.clean_up()
        outcome.seconds = time.monotonic() - began


def under_load(
    shop: Shop,
    history: History,
    outcome: Outcome,
    readers: list[Callable[[], None]],
    happen: Callable[[], None],
    must_be_answered: Callable[[Read], bool] = lambda read: False,
) -> list[Violation]:
    """Lets things happen while orders flow and clients read; the violations of the whole history."""
    observer = Observer(shop.settings)
    observer.keep_all_records()
    with observer.watching(), Clients(readers):
        with shop.orders():
            happen()
        shop.settle()
        shop.await_orders(_FINISH_SECONDS)
    committed = observer.committed()
    outcome.reads = history.reads
    outcome.orders = shop.expected.orders
    outcome.inexact = shop.inexact(committed)
    outcome.aborted = observer.aborted(committed)
    return check(outcome.reads, committed, must_be_answered)
