"""One application on records that are all there, from its start until it is through with them."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from benchmarks.contenders.application import PYSPARK, Application
from benchmarks.contenders.commands import checkpoint_of
from benchmarks.contenders.running import Running
from benchmarks.contenders.spark_checkpoint import CheckpointOffsets
from benchmarks.course import Course
from benchmarks.offsets import Offsets
from benchmarks.stand import Stand

_SAMPLE_SECONDS = 0.1
_USAGE_SECONDS = 0.5


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


def run_once(
    stand: Stand, records: int, application: Application, what: str, limit_seconds: float = math.inf
) -> tuple[Run, Course]:
    """Runs one application until it is through with all records, or for as long as the limit is."""
    stand.loader.make(application.output)
    offsets = _positions(stand, application)
    broker_before = stand.broker_usage().cpu_seconds
    with stand.display.task(what, records) as advance, Running(stand, application) as running:
        course = Course(records, application, offsets)
        peak = 0
        next_usage = 0.0
        while not course.is_over:
            now = course.sample()
            if now - running.started > limit_seconds:
                break
            if now >= next_usage:
                peak = max(peak, running.usage().rss_bytes)
                next_usage = now + _USAGE_SECONDS
                advance(course.done)
            time.sleep(_SAMPLE_SECONDS)
        used = running.usage()
        broker = stand.broker_usage().cpu_seconds - broker_before
        seconds = course.end - running.started
    offsets.close()
    peak_mb = max(peak, used.rss_bytes) / 1024**2
    return Run(course.rate(), course.through / seconds, seconds, used.cpu_seconds, broker, peak_mb), course


def _positions(stand: Stand, application: Application) -> Offsets | CheckpointOffsets:
    offsets = Offsets(stand.servers, application.application_id, application.partitions)
    if application.contender == PYSPARK:
        return CheckpointOffsets(checkpoint_of(stand.directory / application.application_id), offsets)
    return offsets
