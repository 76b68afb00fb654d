"""The driver's ceiling: how many results a second go through its transactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.contenders.application import HEADRACE, Application
from benchmarks.contenders.topologies import RESULTS
from benchmarks.loading import Record
from benchmarks.orders import START_MS
from benchmarks.run import run_once
from benchmarks.stand import Stand

RECORDS = 200_000
BATCH_RECORDS = 10_000
"""So that a transaction has half a million results, and there are some."""


@dataclass(frozen=True)
class Ceiling:
    """What the driver passed on."""

    results: int
    batch_results: int
    """In one transaction, at most."""
    rate: float | None
    """Results a second after the first quarter."""
    cpu_micros: float
    """CPU of the whole application for a result, its start included."""


def measure(stand: Stand, records: int) -> Ceiling:
    """Many tiny results of few records, so that little but results costs anything."""
    application = Application(HEADRACE, "ceiling", "many", ("ceiling-in",), batch_records=BATCH_RECORDS)
    stand.loader.make(*application.sources)
    stand.loader.write(application.sources[0], _records(records))
    results = records * RESULTS
    run, _ = run_once(stand, records, application, f"{results:,} results of {records:,} records")
    stand.forget(application.application_id)
    rate = None if run.rate is None else run.rate * RESULTS
    return Ceiling(results, BATCH_RECORDS * RESULTS, rate, run.cpu_seconds / results * 1e6)


def _records(count: int) -> Iterator[Record]:
    for number in range(count):
        yield Record(b"%08d" % number, b"1", START_MS + number)
