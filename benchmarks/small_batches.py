"""Small batches: whether their time, their memory and what they leave on disk depend on what came before."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.offsets import Offsets
from benchmarks.orders import PARTITIONS, Order, orders_of, orders_of_all
from benchmarks.stand import HEADRACE, Application, Running, Stand

STATE_KEYS = (10_000, 100_000, 1_000_000)
STATE_RECORDS = 10_000
TINY_RECORDS = 8
TINY_TARGETS_MS = {"stateless": 400, "totals": 700}

_STATE_ROUNDS = 9
_WARM_UP = 3
_TINY_PART = 10
"""The first and the last of so many parts of the tiny batches are compared."""
_TINY_KEYS = 1_000
_POLL_SECONDS = 0.005
_STUCK_SECONDS = 600.0


@dataclass(frozen=True)
class OnState:
    """Batches of the same records on a state of some size."""

    keys: int
    median_ms: float
    rss_mb: float


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

    topology: str
    batches: int
    first: Part
    last: Part
    target_ms: int


def on_state(stand: Stand, keys: int) -> OnState:
    """The time and the memory of a batch on a state of so many keys."""
    application = _prepare(stand, f"state-{keys}", "totals")
    with stand.display.task(f"Making a state of {keys:,} keys", keys) as advance:
        stand.loader.load(orders_of_all(keys), None, application.source)
        with Running(stand, application) as running, _Feed(stand, running) as feed:
            feed.await_committed(_ends(stand, application), advance)
    # A process of its own, so that its memory is not that of the large batches that made the state.
    with (
        stand.display.task(f"Batches of {STATE_RECORDS:,} records on {keys:,} keys", _STATE_ROUNDS) as advance,
        Running(stand, application) as running,
        _Feed(stand, running) as feed,
    ):
        records = list(orders_of(range(STATE_RECORDS)))
        seconds = []
        for number in range(_WARM_UP + _STATE_ROUNDS):
            seconds.append(feed.send(records))
            advance(max(number - _WARM_UP + 1, 0))
        rss = running.usage().rss_bytes
    stand.forget(application.application_id)
    return OnState(keys, statistics.median(seconds[_WARM_UP:]) * 1000, rss / 1024**2)


def tiny(stand: Stand, topology: str, batches: int) -> Tiny:
    """Many batches of a few records, which reach all tasks."""
    application = _prepare(stand, f"tiny-{topology}", topology)
    numbers = itertools.cycle(range(_TINY_KEYS))
    with (
        stand.display.task(f"Tiny batches, {topology}", batches) as advance,
        Running(stand, application) as running,
        _Feed(stand, running) as feed,
    ):
        for _ in range(_WARM_UP):
            feed.send(orders_of(itertools.islice(numbers, TINY_RECORDS)))
        parts: list[Part] = []
        seconds: list[float] = []
        for number in range(1, batches + 1):
            seconds.append(feed.send(orders_of(itertools.islice(numbers, TINY_RECORDS))))
            advance(number)
            if len(seconds) == max(1, batches // _TINY_PART):
                parts.append(_part(seconds, running))
                seconds = []
    stand.forget(application.application_id)
    return Tiny(topology, batches, parts[0], parts[-1], TINY_TARGETS_MS[topology])


def _part(seconds: Sequence[float], running: Running) -> Part:
    disk = _size(running.home)
    return Part(
        statistics.median(seconds) * 1000,
        sorted(seconds)[int(len(seconds) * 0.99)] * 1000,
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


def _prepare(stand: Stand, name: str, topology: str) -> Application:
    application = Application(HEADRACE, name, topology, f"{name}-in")
    stand.loader.make(application.source, application.output)
    return application


def _ends(stand: Stand, application: Application) -> list[int]:
    offsets = Offsets(stand.servers, application.application_id)
    ends = offsets.ends(application.source)
    offsets.close()
    return ends


class _Feed:
    """Gives an application records, all of them visible at once, and sees when they are committed."""

    def __init__(self, stand: Stand, running: Running) -> None:
        self._running = running
        self._topic = running.application.source
        self._offsets = Offsets(stand.servers, running.application.application_id)
        self._ends = [0] * PARTITIONS
        self._producer = Producer(
            {
                "bootstrap.servers": stand.servers,
                "transactional.id": f"feed-{self._topic}",
                "partitioner": "murmur2_random",
                "log_level": 0,
            }
        )
        self._producer.init_transactions()

    def __enter__(self) -> _Feed:
        return self

    def __exit__(self, *_: object) -> None:
        self._offsets.close()

    def send(self, records: Iterable[Order]) -> float:
        """The seconds from the moment the records are there to the commit of all that came of them."""
        self._producer.begin_transaction()
        for order in records:
            self._producer.produce(
                self._topic,
                order.value,
                order.location_id,
                timestamp=order.timestamp,
                on_delivery=self._on_delivery,
            )
        self._producer.flush()
        started = time.monotonic()
        self._producer.commit_transaction()
        self.await_committed(self._ends)
        return time.monotonic() - started

    def await_committed(self, ends: Sequence[int], advance=lambda done: None) -> None:
        """Waits until the application is through with the partitions up to these offsets."""
        deadline = time.monotonic() + _STUCK_SECONDS
        while True:
            committed = self._offsets.committed(self._topic)
            if all(through >= end for through, end in zip(committed, ends, strict=True)):
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self._topic} was not read to its end within {_STUCK_SECONDS:.0f} seconds.")
            advance(sum(committed))
            self._running.check()
            time.sleep(_POLL_SECONDS)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"Kafka did not take an order: {error}")
        self._ends[message.partition()] = message.offset() + 1
