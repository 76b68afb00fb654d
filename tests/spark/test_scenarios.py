"""The oracle's scenarios on Spark and real Kafka: the same results as the driver's, in batches of several sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.kafka.embedded import EmbeddedKafka
from headrace.testing import TopologyTestDriver
from tests.oracle.headrace_side import _by_topic, _config, _happen
from tests.oracle.scenario import Pipe, Scenario, all_scenarios
from tests.spark.running import Written, build, run_on_spark

CHOSEN = {
    ("filter", 100),
    ("count", 100),
    ("reduce", 3),
    ("tumbling", 3),
    ("session", 100),
    ("sliding", 4),
    ("table-table outer_join", 1),
    ("stream-stream left_join", 1),
    ("stream-table join", 1),
    ("foreign-key left_join", 1),
    ("suppress until window closes", 3),
    ("cogroup", 1),
}


def chosen() -> list[tuple[Scenario, int]]:
    """For each of the operators the first scenario that Spark can run, with its batch size."""
    found = []
    for operator, size in sorted(CHOSEN):
        fitting = (
            one
            for one in all_scenarios()
            if one.operator == operator and not one.is_low_level and all(isinstance(e, Pipe) for e in one.inputs)
        )
        found.append((later(next(fitting)), size))
    return found


def later(scenario: Scenario) -> Scenario:
    """The scenario an hour later: librdkafka takes a timestamp of 0 for none."""
    events = [
        replace(event, timestamp=event.timestamp + 3_600_000) for event in scenario.inputs if isinstance(event, Pipe)
    ]
    return replace(scenario, inputs=events)


@pytest.mark.parametrize(("scenario", "size"), chosen(), ids=lambda value: str(value))
def test_spark_gives_the_drivers_result(
    scenario: Scenario, size: int, embedded_kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path
) -> None:
    expected = run_on_driver(scenario)
    actual = run_on_spark(scenario, embedded_kafka.bootstrap_servers, tmp_path, size)
    assert {topic: records for topic, records in actual.items() if records} == expected


def run_on_driver(scenario: Scenario) -> dict[str, list[Written]]:
    """What the scenario writes to its own topics on the driver, caching off."""
    topology = build(scenario)
    with TopologyTestDriver(topology, _config(scenario.config, 0), initial_wall_clock=0) as driver:
        for event in scenario.inputs:
            _happen(driver, event)
        by_topic = _by_topic(driver.produced())
    return {
        topic: [(one.key, one.value, one.timestamp, one.headers) for one in records]
        for topic, records in by_topic.items()
        if not topic.startswith("app-")
    }
