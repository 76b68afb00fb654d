"""Latency beside Kafka Streams: from sending a record to the first result that a read_committed reader sees of it.

A cached store may pass on one update for several records. So the result of a record is the first one of its key that
includes it: whose count is at least the record's ordinal. Where each record has a key and a result of its own, that is
its own result.
"""

from __future__ import annotations

import itertools
import statistics
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from benchmarks.contenders.application import CONTENDERS, HEADRACE, KAFKA_STREAMS, Application
from benchmarks.contenders.running import Running
from benchmarks.contenders.topologies import Total
from benchmarks.feed import Feed
from benchmarks.orders import PARTITIONS, orders
from benchmarks.percentiles import percentile
from benchmarks.stand import Stand
from benchmarks.steady import Sent, Steady
from benchmarks.watching import Arrival, Watcher

SECONDS = 30.0
ROUNDS = 2

_LOCATIONS = 1_000
_WARM_UP_SECONDS = 10.0
_WARM_UP_RATE = 2_000
_FIRST_RATE = 10.0
_FIRST_SECONDS = 120.0
_SEEN_SECONDS = 1.0
_ENDLESS = 10**9


@dataclass(frozen=True)
class Case:
    """A workload at a rate, and how many times Kafka Streams' latency it may take."""

    workload: str
    topology: str
    rate: int
    partitions: int
    p50_limit: float
    p99_limit: float | None

    @property
    def name(self) -> str:
        """The workload, the rate, and the partitions where they are not the usual ones."""
        name = f"{self.workload}-{self.rate}"
        return name if self.partitions == PARTITIONS else f"{name}-{self.partitions}p"


CASES = (
    Case("stateless", "stateless", 200, PARTITIONS, 1.3, 1.5),
    Case("stateless", "stateless", 2_000, PARTITIONS, 1.3, 1.5),
    Case("keys-1k", "totals", 200, PARTITIONS, 1.3, 1.5),
    Case("keys-1k", "totals", 2_000, PARTITIONS, 1.3, 1.5),
    Case("keys-1k", "totals", 200, 64, 2.0, None),
)


@dataclass(frozen=True)
class Run:
    """One contender, once."""

    rate: float
    """Records that were sent a second; a machine that is too busy sends fewer than it should."""
    p50_ms: float
    p99_ms: float
    cores: float
    """How many cores it kept busy meanwhile."""


@dataclass(frozen=True)
class Latency:
    """A case's runs."""

    case: Case
    runs: dict[str, list[Run]]

    def median(self, contender: str, of: Callable[[Run], float]) -> float | None:
        """The median over a contender's rounds."""
        runs = self.runs.get(contender)
        return statistics.median(of(run) for run in runs) if runs else None

    @property
    def p50_ratio(self) -> float | None:
        """Headrace's median divided by Kafka Streams'."""
        return self._ratio(lambda run: run.p50_ms)

    @property
    def p99_ratio(self) -> float | None:
        """The same of the 99th percentiles."""
        return self._ratio(lambda run: run.p99_ms)

    def _ratio(self, of: Callable[[Run], float]) -> float | None:
        ours, theirs = self.median(HEADRACE, of), self.median(KAFKA_STREAMS, of)
        return None if ours is None or theirs is None else ours / theirs


def warm_up(stand: Stand, case: Case, contenders: Iterable[str]) -> None:
    """Has each contender run once without being measured: Kafka, when it has just started, is slow to all of them."""
    for contender in contenders:
        name = f"latency-first-{contender}"
        application = Application(contender, name, case.topology, (f"{name}-in",), case.partitions)
        with stand.display.task(f"Latency, not measured: {contender}"):
            _run(stand, application, _WARM_UP_RATE, _WARM_UP_SECONDS)
        stand.forget(application.application_id)


def measure(stand: Stand, case: Case, rounds: int, seconds: float, contenders: Iterable[str] = CONTENDERS) -> Latency:
    """Lets the contenders run in turn, as often as there are rounds."""
    contenders = list(contenders)
    runs: dict[str, list[Run]] = {contender: [] for contender in contenders}
    for number in range(1, rounds + 1):
        for contender in contenders:
            what = f"Latency, {case.name}: {contender}, round {number} of {rounds}"
            name = f"latency-{case.name}-{contender}-{number}"
            application = Application(contender, name, case.topology, (f"{name}-in",), case.partitions)
            with stand.display.task(what):
                runs[contender].append(_run(stand, application, case.rate, seconds))
            stand.forget(application.application_id)
    return Latency(case, runs)


def _run(stand: Stand, application: Application, rate: int, seconds: float) -> Run:
    stateless = application.topology == "stateless"
    stand.loader.make(*application.sources, application.output, partitions=application.partitions)
    # Only orders that have a result: the others are filtered.
    records = orders(_ENDLESS, _LOCATIONS)
    chosen = itertools.islice(records, 1, None, 2) if stateless else records
    producer = Steady(stand.servers, application.sources[0], chosen, by_order=stateless)
    with (
        Watcher(stand.servers, application.output, application.partitions) as watcher,
        Running(stand, application) as running,
    ):
        _await_first_result(producer, watcher, running)
        producer.run(rate, min(_WARM_UP_SECONDS, seconds))
        before, began = running.usage().cpu_seconds, time.monotonic()
        sent = producer.run(rate, seconds)
        elapsed = time.monotonic() - began
        cores = (running.usage().cpu_seconds - before) / elapsed
        producer.close()
        _await_all(stand, running)
        taken = latencies(sent, counted(watcher.stop(), one_each=stateless))
    return Run(len(sent) / elapsed, percentile(taken, 0.5) * 1000, percentile(taken, 0.99) * 1000, cores)


def _await_first_result(producer: Steady, watcher: Watcher, running: Running) -> None:
    deadline = time.monotonic() + _FIRST_SECONDS
    while not any(watcher.counts):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{running.application.application_id} gave no result in {_FIRST_SECONDS:.0f} seconds.")
        running.check()
        producer.run(_FIRST_RATE, 1 / _FIRST_RATE)
        time.sleep(1 / _FIRST_RATE)


def _await_all(stand: Stand, running: Running) -> None:
    """Waits until everything is committed, and a moment longer: then the reader has seen it."""
    with Feed(stand, running) as feed:
        feed.await_all()
    time.sleep(_SEEN_SECONDS)


# --- which result is whose -----------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """A result when it was seen, and how many records of its key it includes."""

    at: float
    key: bytes
    included: int


def counted(arrivals: Iterable[Arrival], *, one_each: bool) -> list[Seen]:
    """The results with what they include: the count in their value, or one record each."""
    if one_each:
        return [Seen(arrival.at, arrival.key, 1) for arrival in arrivals]
    decode = msgspec.json.Decoder(Total).decode
    return [Seen(arrival.at, arrival.key, decode(arrival.value).count) for arrival in arrivals]


def latencies(sent: Iterable[Sent], seen: Iterable[Seen]) -> list[float]:
    """The seconds from each record to the first result that includes it; RuntimeError if one has none."""
    results: dict[bytes, tuple[list[int], list[float]]] = {}
    for result in seen:
        counts, times = results.setdefault(result.key, ([], []))
        if not counts or result.included > counts[-1]:
            counts.append(result.included)
            times.append(result.at)
    taken = []
    lost = 0
    for record in sent:
        counts, times = results.get(record.key, ([], []))
        place = bisect_left(counts, record.ordinal)
        if place == len(counts):
            lost += 1
        else:
            taken.append(times[place] - record.at)
    if lost:
        raise RuntimeError(f"{lost:,} of {lost + len(taken):,} records had no result.")
    return taken
