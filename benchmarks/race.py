"""Headrace and Kafka Streams on the same records, one after the other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.course import Course
from benchmarks.offsets import Offsets
from benchmarks.orders import orders, orders_of_all
from benchmarks.outcome import Outcome, difference, read_outcome
from benchmarks.stand import CONTENDERS, HEADRACE, KAFKA_STREAMS, Application, Running, Stand
from benchmarks.topologies import Revenue, Total

BY_ORDER = "orders"
BY_LOCATION = "orders-by-location"
ALL_DIFFERENT = "orders-all-different"
LOCATIONS = 1_000
FROM_START_TARGET = 0.7

_SAMPLE_SECONDS = 0.1
_USAGE_SECONDS = 0.5


@dataclass(frozen=True)
class Workload:
    """What is to be done, and how many times as fast as Kafka Streams."""

    name: str
    topology: str
    source: str
    target: float

    @property
    def stateful(self) -> bool:
        """Whether only the last value of a key counts: those before it depend on when caches are flushed."""
        return self.topology != "stateless"


WORKLOADS = (
    Workload("stateless", "stateless", BY_ORDER, 1.2),
    Workload("keys-1k", "totals", BY_LOCATION, 1.3),
    Workload("keys-1m", "totals", ALL_DIFFERENT, 1.5),
    Workload("windows", "windows", BY_ORDER, 1.5),
)


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    records: int
    different: int
    """Records of the workload in which each has a key of its own."""
    rounds: int
    batch_records: int | None = None
    """How many records a batch of Headrace's has at most; None is its default."""

    def of(self, workload: Workload) -> int:
        """How many records the workload has."""
        return self.different if workload.source == ALL_DIFFERENT else self.records


@dataclass(frozen=True)
class Run:
    """One contender, once."""

    rate: float | None
    """Records a second after the first quarter; None if there was no commit between that and the end."""
    rate_from_start: float
    """Records a second from the start of the process."""
    seconds: float
    cpu_seconds: float
    broker_cpu_seconds: float
    peak_mb: float


@dataclass(frozen=True)
class Figures:
    """A workload's runs, and whether all of them gave the same result."""

    workload: Workload
    records: int
    runs: dict[str, list[Run]]
    differences: list[str]

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
    sources = {workload.source for workload in workloads}
    stand.loader.make(*sorted(sources))
    by_order, by_location = (topic if topic in sources else None for topic in (BY_ORDER, BY_LOCATION))
    if by_order or by_location:
        with stand.display.task("Writing the orders", size.records) as advance:
            stand.loader.load(orders(size.records, LOCATIONS), by_order, by_location, advance)
    if ALL_DIFFERENT in sources:
        with stand.display.task("Writing orders that all have different keys", size.different) as advance:
            stand.loader.load(orders_of_all(size.different), None, ALL_DIFFERENT, advance)


def compete(stand: Stand, size: Size, workload: Workload, contenders: Iterable[str] = CONTENDERS) -> Figures:
    """Lets the contenders run in turn, as often as there are rounds, and compares all they wrote."""
    contenders = list(contenders)
    runs: dict[str, list[Run]] = {contender: [] for contender in contenders}
    differences: list[str] = []
    reference: Outcome | None = None
    for number in range(1, size.rounds + 1):
        for contender in contenders:
            what = f"{workload.name}: {contender}, round {number} of {size.rounds}"
            name = f"{workload.name}-{contender}-{number}"
            application = Application(contender, name, workload.topology, workload.source, size.batch_records)
            runs[contender].append(run_once(stand, size.of(workload), application, what))
            outcome = _outcome(stand, workload, application)
            if reference is None:
                reference = outcome
            elif (found := difference(reference, outcome)) is not None:
                differences.append(f"{what}: {found}")
            stand.forget(application.application_id)
    return Figures(workload, size.of(workload), runs, differences)


def run_once(stand: Stand, records: int, application: Application, what: str) -> Run:
    """Runs one application until it is through with all records."""
    stand.loader.make(application.output)
    offsets = Offsets(stand.servers, application.application_id)
    broker_before = stand.broker_usage().cpu_seconds
    with stand.display.task(what, records) as advance, Running(stand, application) as running:
        course = Course(records, application, offsets)
        peak = 0
        next_usage = 0.0
        while not course.is_over:
            now = course.sample()
            if now >= next_usage:
                peak = max(peak, running.usage().rss_bytes)
                next_usage = now + _USAGE_SECONDS
                advance(course.done)
            time.sleep(_SAMPLE_SECONDS)
        used = running.usage()
        broker = stand.broker_usage().cpu_seconds - broker_before
        seconds = course.end - running.started
    offsets.close()
    return Run(course.rate(), records / seconds, seconds, used.cpu_seconds, broker, max(peak, used.rss_bytes) / 1024**2)


def _outcome(stand: Stand, workload: Workload, application: Application) -> Outcome:
    of = Total if workload.stateful else Revenue
    with stand.display.task(f"{application.application_id}: reading what it wrote") as advance:
        return read_outcome(stand.servers, application.output, of, workload.stateful, advance)
