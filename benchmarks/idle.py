"""What an application without input costs: CPU of all its processes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.contenders.application import CONTENDERS, Application
from benchmarks.contenders.running import Running
from benchmarks.feed import Feed
from benchmarks.orders import orders_of
from benchmarks.stand import Stand

SECONDS = 30.0
LIMIT = 0.02
"""Of a core, for Headrace."""

_RECORDS = 1_000
_SETTLE_SECONDS = 10.0


@dataclass(frozen=True)
class Idle:
    """What a contender used without input."""

    contender: str
    cores: float


def measure(stand: Stand, seconds: float) -> list[Idle]:
    """Both contenders with a store, after some records, when all is quiet."""
    return [Idle(contender, _cores(stand, contender, seconds)) for contender in CONTENDERS]


def _cores(stand: Stand, contender: str, seconds: float) -> float:
    name = f"idle-{contender}"
    application = Application(contender, name, "totals", (f"{name}-in",))
    stand.loader.make(*application.sources, application.output)
    with (
        stand.display.task(f"{contender} without input"),
        Running(stand, application) as running,
        Feed(stand, running) as feed,
    ):
        feed.send(orders_of(range(_RECORDS)))
        time.sleep(min(_SETTLE_SECONDS, seconds))
        before, began = running.usage().cpu_seconds, time.monotonic()
        time.sleep(seconds)
        cores = (running.usage().cpu_seconds - before) / (time.monotonic() - began)
    stand.forget(application.application_id)
    return cores
