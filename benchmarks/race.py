"""Headrace and Kafka Streams on the same records, one after the other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from benchmarks.contenders.application import CONTENDERS, HEADRACE, KAFKA_STREAMS, Application
from benchmarks.contenders.topologies import RESULT_TYPES
from benchmarks.joined import payments, stores
from benchmarks.orders import orders, orders_of_all
from benchmarks.outcome import Outcome, difference, read_outcome
from benchmarks.run import Run, run_once
from benchmarks.stand import Stand
from headrace.errors import EnvironmentFailed

BY_ORDER = "orders"
BY_LOCATION = "orders-by-location"
ALL_DIFFERENT = "orders-all-different"
BY_STORE = "orders-by-store"
STORES = "stores"
TO_PAY = "orders-to-pay"
PAYMENTS = "payments"
LOCATIONS = 1_000
FROM_START_TARGET = 1.0
RIVAL_SECONDS = 180.0
"""A rival that takes longer is stopped."""


@dataclass(frozen=True)
class Workload:
    """What is to be done, and how many times as fast as Kafka Streams."""

    name: str
    topology: str
    sources: tuple[str, ...]
    target: float

    @property
    def last_only(self) -> bool:
        """Whether only the last value of a key counts: those before it depend on when caches are flushed."""
        return self.topology in ("totals", "windows")


WORKLOADS = (
    Workload("stateless", "stateless", (BY_ORDER,), 1.8),
    Workload("keys-1k", "totals", (BY_LOCATION,), 2.0),
    Workload("keys-1m", "totals", (ALL_DIFFERENT,), 2.0),
    Workload("windows", "windows", (BY_ORDER,), 2.0),
    Workload("table-join", "table-join", (BY_STORE, STORES), 1.5),
    Workload("stream-join", "stream-join", (TO_PAY, PAYMENTS), 1.5),
)


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    records: int
    different: int
    """Records of the workload in which each has a key of its own, and orders that are paid."""
    rounds: int
    stores: int = 100_000
    """Rows of the table that orders are joined with."""
    batch_records: int | None = None
    """How many records a batch of Headrace's has at most; None is its default."""

    def of(self, workload: Workload) -> int:
        """How many records the workload has, in all topics it reads."""
        return sum(self._in(topic) for topic in workload.sources)

    def _in(self, topic: str) -> int:
        if topic == STORES:
            return self.stores
        return self.different if topic in (ALL_DIFFERENT, TO_PAY, PAYMENTS) else self.records


@dataclass(frozen=True)
class Rival:
    """A rival, once: how it went, and what was wrong with it."""

    run: Run | None
    problem: str | None


@dataclass(frozen=True)
class Figures:
    """A workload's runs, and whether all of them gave the same result."""

    workload: Workload
    records: int
    runs: dict[str, list[Run]]
    differences: list[str]
    rivals: dict[str, Rival] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Headrace's rate after the first quarter divided by Kafka Streams'."""
        return self._ratio(lambda run: run.rate)

    @property
    def ratio_from_start(self) -> float | None:
        """The same for the rates from the start."""
        return self._ratio(lambda run: run.rate_from_start)

    def median(self, contender: str, of: Callable[[Run], float | None]) -> float | None:
        """The median over a contender's rounds; None if it is not known for one of them."""
        values = [of(run) for run in self.runs.get(contender, [])]
        known = [value for value in values if value is not None]
        return statistics.median(known) if known and len(known) == len(values) else None

    def _ratio(self, of: Callable[[Run], float | None]) -> float | None:
        ours, theirs = self.median(HEADRACE, of), self.median(KAFKA_STREAMS, of)
        return None if self.differences or ours is None or theirs is None else ours / theirs


def load(stand: Stand, size: Size, workloads: Iterable[Workload]) -> None:
    """Fills the topics that the workloads read."""
    needed = {source for workload in workloads for source in workload.sources}
    stand.loader.make(*sorted(needed))
    by_order, by_location = (topic if topic in needed else None for topic in (BY_ORDER, BY_LOCATION))
    if by_order or by_location:
        with stand.display.task("Writing the orders", size.records) as advance:
            stand.loader.load(orders(size.records, LOCATIONS), by_order, by_location, advance)
    if ALL_DIFFERENT in needed:
        with stand.display.task("Writing orders that all have different keys", size.different) as advance:
            stand.loader.load(orders_of_all(size.different), None, ALL_DIFFERENT, advance)
    if STORES in needed:
        with stand.display.task(f"Writing {size.stores:,} stores and their orders", size.records) as advance:
            stand.loader.write(STORES, stores(size.stores))
            stand.loader.load(orders(size.records, size.stores), None, BY_STORE, advance)
    if PAYMENTS in needed:
        with stand.display.task("Writing orders and their payments", size.different) as advance:
            stand.loader.load(orders(size.different, LOCATIONS), TO_PAY, None, advance)
            stand.loader.write(PAYMENTS, payments(size.different))


def compete(
    stand: Stand, size: Size, workload: Workload, contenders: Iterable[str] = CONTENDERS, rivals: Iterable[str] = ()
) -> Figures:
    """Lets the contenders run in turn, as often as there are rounds, then the rivals once; compares all they wrote."""
    contenders = list(contenders)
    runs: dict[str, list[Run]] = {contender: [] for contender in contenders}
    differences: list[str] = []
    reference: Outcome = {}
    for number in range(1, size.rounds + 1):
        for contender in contenders:
            what = f"{workload.name}: {contender}, round {number} of {size.rounds}"
            run, outcome = _run(stand, size, workload, contender, number, what)
            runs[contender].append(run)
            reference = reference or outcome or {}
            if (found := _problem(reference, outcome)) is not None:
                differences.append(f"{what}: {found}")
    found_rivals = {rival: _rival(stand, size, workload, rival, reference) for rival in rivals}
    return Figures(workload, size.of(workload), runs, differences, found_rivals)


def _rival(stand: Stand, size: Size, workload: Workload, rival: str, reference: Outcome) -> Rival:
    """One run of a rival; that it fails or differs is a result too."""
    try:
        run, outcome = _run(stand, size, workload, rival, 1, f"{workload.name}: {rival}", RIVAL_SECONDS)
    except (RuntimeError, EnvironmentFailed) as error:
        return Rival(None, str(error))
    if outcome is None:
        return Rival(run, f"stopped after {RIVAL_SECONDS:.0f} s; results not compared")
    return Rival(run, _problem(reference, outcome))


def _run(
    stand: Stand,
    size: Size,
    workload: Workload,
    contender: str,
    number: int,
    what: str,
    limit_seconds: float = math.inf,
) -> tuple[Run, Outcome | None]:
    """How it went and what it wrote; None if it was stopped before it was through."""
    name = f"{workload.name}-{contender}-{number}"
    application = Application(contender, name, workload.topology, workload.sources, batch_records=size.batch_records)
    try:
        run, course = run_once(stand, size.of(workload), application, what, limit_seconds)
        return run, _outcome(stand, workload, application) if course.is_over else None
    finally:
        stand.forget(application.application_id)


def _problem(reference: Outcome, outcome: Outcome | None) -> str | None:
    return difference(reference, outcome) if outcome else "there are no results"


def _outcome(stand: Stand, workload: Workload, application: Application) -> Outcome:
    of = RESULT_TYPES[workload.topology]
    with stand.display.task(f"{application.application_id}: reading what it wrote") as advance:
        return read_outcome(stand.servers, application.output, of, workload.last_only, advance)
