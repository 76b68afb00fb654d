"""Recovery beside Kafka Streams: from the start of a new process to the first results that a reader sees of it.

The application is killed while records come in. Its disk is kept or lost. The new process is started at once, or when
Kafka has noticed that the members of the group are gone: Kafka Streams joins a group, and a killed member stays in it
until its session times out.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka.admin import AdminClient

from benchmarks.contenders.application import CONTENDERS, HEADRACE, KAFKA_STREAMS, Application
from benchmarks.contenders.running import Running
from benchmarks.feed import Feed
from benchmarks.orders import SEED, Order, orders_of, orders_of_all
from benchmarks.stand import Stand
from benchmarks.steady import Steady
from benchmarks.watching import Arrival, Watcher

KEYS = 1_000_000
ROUNDS = 2
LIMIT = 1.0
REBUILD_TARGET = 200_000
"""Records a second and core."""

_RATE = 200.0
_SOURCE = "recovery-in"
_SETTLE_SECONDS = 3.0
_PAUSE_SECONDS = 1.0
_STUCK_SECONDS = 300.0
_LOOK_SECONDS = 0.02
_HOURS = 24 * 3600.0


@dataclass(frozen=True)
class Case:
    """What is left, and when the new process starts."""

    disk_kept: bool
    at_once: bool

    @property
    def name(self) -> str:
        """As it is printed."""
        return f"{'kept' if self.disk_kept else 'lost'}{'-at-once' if self.at_once else ''}"


CASES = tuple(Case(kept, at_once) for kept in (True, False) for at_once in (False, True))


@dataclass(frozen=True)
class Restart:
    """How long a new process took."""

    first_seconds: float
    """Until the first result."""
    all_seconds: float
    """Until there was one in each partition."""
    rebuilt_records: int = 0
    """What Headrace's workers read of changelogs meanwhile."""
    rebuild_seconds: float = 0.0
    """How long they took for it, added up: each is one process, so these are seconds of a core."""


@dataclass(frozen=True)
class Recovery:
    """All restarts, by case and contender."""

    keys: int
    restarts: dict[Case, dict[str, list[Restart]]]
    problems: list[str] = field(default_factory=list)
    """Who did not come back, and why."""

    def first_seconds(self, case: Case, contender: str) -> float | None:
        """The time to the first result, the median over the rounds."""
        taken = [restart.first_seconds for restart in self.restarts[case].get(contender, [])]
        return statistics.median(taken) if taken else None

    def all_seconds(self, case: Case, contender: str) -> float | None:
        """The time until there was a result in each partition."""
        taken = [restart.all_seconds for restart in self.restarts[case].get(contender, [])]
        return statistics.median(taken) if taken else None

    def ratio(self, case: Case) -> float | None:
        """Headrace's time to the first result divided by Kafka Streams'."""
        ours, theirs = (self.first_seconds(case, contender) for contender in (HEADRACE, KAFKA_STREAMS))
        return None if ours is None or theirs is None else ours / theirs

    @property
    def rebuild_rate(self) -> float | None:
        """Records of changelogs that Headrace's workers turn into stores, a second and core."""
        restarts = [each for by_contender in self.restarts.values() for each in by_contender.get(HEADRACE, [])]
        seconds = sum(each.rebuild_seconds for each in restarts)
        return sum(each.rebuilt_records for each in restarts) / seconds if seconds else None


def measure(stand: Stand, keys: int, rounds: int) -> Recovery:
    """Lets the contenders recover in turn, as often as there are rounds."""
    recovery = Recovery(keys, {case: {contender: [] for contender in CONTENDERS} for case in CASES})
    stand.loader.make(_SOURCE)
    with stand.display.task(f"Writing {keys:,} orders that all have different keys", keys) as advance:
        stand.loader.load(orders_of_all(keys), None, _SOURCE, advance)
    for number in range(1, rounds + 1):
        for contender in CONTENDERS:
            application = Application(contender, f"recovery-{contender}-{number}", "totals", (_SOURCE,))
            try:
                for case, restart in _restarts(stand, application, keys):
                    recovery.restarts[case][contender].append(restart)
            except RuntimeError as error:
                recovery.problems.append(str(error))
            stand.forget(application.application_id)
    return recovery


def _restarts(stand: Stand, application: Application, keys: int) -> Iterator[tuple[Case, Restart]]:
    stand.loader.make(application.output)
    running = Running(stand, application)
    try:
        with (
            stand.display.task(f"{application.contender}: making a state of {keys:,} keys", keys) as advance,
            Feed(stand, running) as feed,
        ):
            feed.await_all(advance)
        with _records_coming(stand, keys):
            for case in CASES:
                with (
                    stand.display.task(f"{application.contender} killed, disk and start: {case.name}"),
                    Watcher(stand.servers, application.output, application.partitions) as watcher,
                ):
                    _await_results(watcher, running)
                    time.sleep(_SETTLE_SECONDS)
                    running.kill()
                    if not case.disk_kept:
                        _lose(running)
                    time.sleep(_PAUSE_SECONDS)  # what was committed before is seen by now
                    if not case.at_once:
                        _await_empty_group(stand, application)
                    running = Running(stand, application)
                    _await_results(watcher, running)
                    taken = restart(watcher.stop(), running.started, application.partitions)
                    yield case, replace(taken, **_rebuilds(running))
    finally:
        running.kill()


def restart(arrivals: list[Arrival], started: float, partitions: int) -> Restart:
    """The times to the first result after the start, and to the first of the last partition."""
    first: dict[int, float] = {}
    for arrival in arrivals:
        if arrival.at > started:
            first.setdefault(arrival.partition, arrival.at - started)
    if len(first) < partitions:
        raise RuntimeError(f"Only {len(first)} of {partitions} partitions have a new result.")
    return Restart(min(first.values()), max(first.values()))


def _rebuilds(running: Running) -> dict[str, Any]:
    """What Headrace's batches say of rebuilds; nothing for others, which note no batches."""
    noted = running.home / "batches.jsonl"
    batches = [json.loads(line) for line in noted.read_text().splitlines()] if noted.exists() else []
    return {
        "rebuilt_records": sum(batch["rebuilt"] for batch in batches),
        "rebuild_seconds": sum(batch["rebuild_seconds"] for batch in batches),
    }


@contextmanager
def _records_coming(stand: Stand, keys: int) -> Iterator[None]:
    """Records of random keys, all the time."""
    chance = random.Random(SEED)
    records: Iterator[Order] = orders_of(chance.randrange(keys) for _ in itertools.count())
    producer = Steady(stand.servers, _SOURCE, records, by_order=False)
    stopped = threading.Event()
    thread = threading.Thread(target=producer.run, args=(_RATE, _HOURS, stopped), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        producer.close()


def _await_results(watcher: Watcher, running: Running) -> None:
    """Waits until there is a new result in each partition."""
    before = watcher.counts
    deadline = time.monotonic() + _STUCK_SECONDS
    while not all(now > then for now, then in zip(watcher.counts, before, strict=True)):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{running.application.application_id} gave no result for {_STUCK_SECONDS:.0f} seconds.")
        running.check()
        time.sleep(_LOOK_SECONDS)


def _await_empty_group(stand: Stand, application: Application) -> None:
    admin = AdminClient({"bootstrap.servers": stand.servers, "log_level": 0})
    deadline = time.monotonic() + _STUCK_SECONDS
    while admin.describe_consumer_groups([application.application_id])[application.application_id].result().members:
        if time.monotonic() > deadline:
            raise RuntimeError(f"The group {application.application_id} still has members.")
        time.sleep(1.0)


def _lose(running: Running) -> None:
    """Removes all that the application has on disk, but not its log."""
    for path in running.home.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.suffix != ".txt":
            path.unlink(missing_ok=True)
