"""How many records a second the test driver pipes, on one core."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace import Consumed, Produced, Serdes, StreamsBuilder, Topology
from headrace.testing import TopologyTestDriver

RECORDS = 100_000
KEYS = 1_000
ROUNDS = 3
STRINGS = Consumed(key=Serdes.string(), value=Serdes.string())


@dataclass(frozen=True)
class Workload:
    """A topology, and the rate it is to reach."""

    name: str
    topology: Callable[[], Topology]
    target: int


def stateless() -> Topology:
    """filter and map_values with string serdes."""
    builder = StreamsBuilder()
    (
        builder.stream("in", STRINGS)
        .filter(lambda key, value: value != "")
        .map_values(str.upper)
        .to("out", Produced(value=Serdes.string()))
    )
    return builder.build()


def count() -> Topology:
    """group_by_key and count, with cache and changelog."""
    builder = StreamsBuilder()
    builder.stream("in", STRINGS).group_by_key().count("n")
    return builder.build()


WORKLOADS = (
    Workload("driver-stateless", stateless, 100_000),
    Workload("driver-count", count, 50_000),
)


def measure(workload: Workload) -> float:
    """Records a second: the median of a few rounds."""
    return statistics.median(_round(workload) for _ in range(ROUNDS))


def _round(workload: Workload) -> float:
    keys = [f"key-{number % KEYS}" for number in range(RECORDS)]
    with TopologyTestDriver(workload.topology(), initial_wall_clock=0) as driver:
        pipe = driver.input_topic("in").pipe
        started = time.perf_counter()
        for number, key in enumerate(keys):
            pipe(key, "value", timestamp=number)
        return RECORDS / (time.perf_counter() - started)
