"""Whether cost grows: with the records there were, the partitions there are, and the keys that are kept."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.contenders.application import HEADRACE, Application
from benchmarks.contenders.running import Running
from benchmarks.feed import Feed
from benchmarks.orders import PARTITIONS, Order, orders, orders_of, orders_of_all
from benchmarks.run import run_once
from benchmarks.stand import Stand

BATCH_RECORDS = 10_000
RECORDS = 20_000_000
KEYS = (10_000, 100_000, 1_000_000, 5_000_000)
PARTITION_COUNTS = (1, 4, 16, 64)
LIMIT = 1.3
"""The largest may cost so many times what the smallest does, to be called flat."""

_SHARES = (0.005, 0.05, 0.25, 0.5, 1.0)
"""Of 20 million: 0.1, 1, 5, 10 and 20 million."""
_LOCATIONS = 1_000
_WARM_UP = 20
_ROUNDS = 40


@dataclass(frozen=True)
class Point:
    """What it cost at one size."""

    size: int
    cost: float | None
    """None if nothing was committed in between."""
    rss_mb: float


@dataclass(frozen=True)
class Growth:
    """What it cost from the smallest size to the largest."""

    of: str
    unit: str
    points: list[Point]

    @property
    def ratio(self) -> float | None:
        """The cost at the largest size divided by that at the smallest."""
        known = [point.cost for point in self.points if point.cost is not None]
        return known[-1] / known[0] if len(known) > 1 else None

    @property
    def is_flat(self) -> bool:
        """Whether the cost does not grow."""
        return self.ratio is not None and self.ratio <= LIMIT


def of_records(stand: Stand, records: int) -> Growth:
    """The time of a record after more and more of them, in one run on 1,000 keys."""
    application = _application("growth-records")
    stand.loader.make(*application.sources)
    with stand.display.task(f"Writing {records:,} orders", records) as advance:
        stand.loader.load(orders(records, _LOCATIONS), None, application.sources[0], advance)
    run, course = run_once(stand, records, application, f"{records:,} records in one run")
    stand.forget(application.application_id)
    points = [
        Point(int(end * records), course.micros_between(begin, end), run.peak_mb)
        for begin, end in itertools.pairwise(_SHARES)
    ]
    return Growth("records", "µs a record", points)


def of_partitions(stand: Stand) -> Growth:
    """The time of the same batch on more and more partitions."""
    points = []
    for count in PARTITION_COUNTS:
        application = _application(f"growth-partitions-{count}", count)
        stand.loader.make(*application.sources, application.output, partitions=count)
        points.append(_batches(stand, application, count, f"{count} partitions"))
        stand.forget(application.application_id)
    return Growth("partitions", "ms a batch", points)


def of_keys(stand: Stand, most: int) -> Growth:
    """The time of the same batch, on the same keys, on more and more state."""
    points = []
    for keys in (size for size in KEYS if size <= most):
        application = _application(f"growth-keys-{keys}")
        stand.loader.make(*application.sources, application.output)
        with stand.display.task(f"Making a state of {keys:,} keys", keys) as advance:
            stand.loader.load(orders_of_all(keys), None, application.sources[0])
            with Running(stand, application) as running, Feed(stand, running) as feed:
                feed.await_all(advance)
        # A process of its own, so that its memory is not that of the large batches that made the state.
        points.append(_batches(stand, application, keys, f"{keys:,} keys"))
        stand.forget(application.application_id)
    return Growth("keys", "ms a batch", points)


def _batches(stand: Stand, application: Application, size: int, what: str) -> Point:
    with (
        stand.display.task(f"Batches of {BATCH_RECORDS:,} records, {what}", _ROUNDS) as advance,
        Running(stand, application) as running,
        Feed(stand, running) as feed,
    ):
        records = list(_records())
        seconds = []
        for number in range(_WARM_UP + _ROUNDS):
            seconds.append(feed.send(records))
            advance(max(number - _WARM_UP + 1, 0))
        rss = running.usage().rss_bytes
    return Point(size, statistics.median(seconds[_WARM_UP:]) * 1000, rss / 1024**2)


def _records() -> Iterator[Order]:
    return orders_of(range(BATCH_RECORDS))


def _application(name: str, partitions: int = PARTITIONS) -> Application:
    return Application(HEADRACE, name, "totals", (f"{name}-in",), partitions)
