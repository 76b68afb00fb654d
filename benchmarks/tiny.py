"""Tiny batches: what one takes, and whether time, memory and disk depend on what came before."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders.application import HEADRACE, Application
from benchmarks.contenders.running import Running
from benchmarks.feed import Feed
from benchmarks.orders import PARTITIONS, orders_of
from benchmarks.percentiles import percentile
from benchmarks.stand import Stand

RECORDS = 8

_WARM_UP = 20
_PARTS = 10
"""The first and the last of so many parts are compared."""
_KEYS = 1_000


@dataclass(frozen=True)
class Case:
    """A topology on a number of partitions, and what a batch may take."""

    name: str
    topology: str
    partitions: int
    target_ms: int


CASES = (
    Case("stateless", "stateless", PARTITIONS, 70),
    Case("with a store", "totals", PARTITIONS, 70),
    Case("with a store, 64 partitions", "totals", 64, 100),
    Case("with a repartition", "windows", PARTITIONS, 120),
)


@dataclass(frozen=True)
class Part:
    """Some of many batches in a row."""

    median_ms: float
    p99_ms: float
    rss_mb: float
    disk_mb: float


@dataclass(frozen=True)
class Tiny:
    """Many tiny batches in a row: how the first ones were and how the last ones."""

    case: Case
    batches: int
    first: Part
    last: Part


def measure(stand: Stand, case: Case, batches: int) -> Tiny:
    """Many batches of a few records."""
    name = f"tiny-{case.topology}-{case.partitions}"
    application = Application(HEADRACE, name, case.topology, (f"{name}-in",), case.partitions)
    stand.loader.make(*application.sources, application.output, partitions=case.partitions)
    numbers = itertools.cycle(range(_KEYS))
    with (
        stand.display.task(f"Tiny batches, {case.name}", batches) as advance,
        Running(stand, application) as running,
        Feed(stand, running) as feed,
    ):
        for _ in range(min(_WARM_UP, batches)):
            feed.send(orders_of(itertools.islice(numbers, RECORDS)))
        parts: list[Part] = []
        seconds: list[float] = []
        for number in range(1, batches + 1):
            seconds.append(feed.send(orders_of(itertools.islice(numbers, RECORDS))))
            advance(number)
            if len(seconds) == max(1, batches // _PARTS):
                parts.append(_part(seconds, running))
                seconds = []
    stand.forget(application.application_id)
    return Tiny(case, batches, parts[0], parts[-1])


def _part(seconds: Sequence[float], running: Running) -> Part:
    disk = _size(running.home)
    return Part(
        statistics.median(seconds) * 1000,
        percentile(seconds, 0.99) * 1000,
        running.usage().rss_bytes / 1024**2,
        disk / 1024**2,
    )


def _size(directory: Path) -> int:
    """What the files below take on disk; some vanish meanwhile."""
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.lstat().st_blocks * 512
        except OSError:
            continue
    return total
