"""The oracle's scenarios on Spark and real Kafka: the same results as the driver's, in batches of several sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest
from pyspark import SparkContext

from headrace import Topology
from headrace.kafka.embedded import EmbeddedKafka
from headrace.topology.nodes import SourceNode
from tests.oracle.headrace_side import run_on_headrace
from tests.oracle.outcome import Written, side_by_side
from tests.oracle.scenario import Advance, Config, Pipe, Scenario, all_scenarios
from tests.spark.running import Results, ScenariosOnSpark, batches_of, build, lives_in_copies, this_hour

SCENARIOS = all_scenarios()
ALL = 1000
"""More records than any scenario has: batches are as large as the order of the records allows."""
TOGETHER = 40
"""How many scenarios run in one application."""
SHORT = 11
"""How many inputs a scenario of a sample has at most."""
ONE_BY_ONE = {
    "stream-stream left_join: of a merge of repartitioned streams": "one record reaches a join on two ways",
    "stream-stream outer_join: of a merge of repartitioned streams": "one record reaches a join on two ways",
    "stream-stream outer_join: one rekeyed stream in three joins": "two joins of equal times write to one topic",
    "foreign-key left_join: of windows": "a window is gone when the answer comes with a later batch",
}
"""Scenarios whose results in large batches are others, as they may be in Kafka Streams too: these run in small ones."""
PER_KEY = (
    "KGroupedTable.aggregate",
    "KStream.to_table",
    "aggregate",
    "cogroup",
    "count",
    "filter",
    "foreign-key join",
    "global join",
    "reduce",
    "repartition",
    "stream-stream join",
    "stream-table left_join",
    "table-table outer_join",
)
"""Operators whose results for a key do not depend on what other keys there are."""


class Laboratory:
    """Runs scenarios together, those of one group once, and keeps what they wrote."""

    def __init__(self, servers: str, new_directory: Callable[[], Path]) -> None:
        self._servers = servers
        self._new_directory = new_directory
        self._differences: dict[tuple[Scenario, ...], dict[str, str | None] | Exception] = {}

    def difference(self, scenario: Scenario) -> str | None:
        """How a scenario with large batches differs from the driver's; None where they agree."""
        group = groups()[str(scenario)]
        if group not in self._differences:
            try:
                self._differences[group] = self.run(group, ALL)
            except Exception as error:
                self._differences[group] = error
        found = self._differences[group]
        if isinstance(found, Exception):
            raise AssertionError("the application that runs this scenario and others failed") from found
        return found[str(scenario)]

    def run(self, group: Sequence[Scenario], size: int, partitions: int = 1) -> dict[str, str | None]:
        """Runs scenarios in batches of at most so many records; by scenario, how it differs from the driver's."""
        together = ScenariosOnSpark(group, self._servers, self._new_directory(), size)
        together.make_topics(partitions)
        actual = together.run()
        differences: dict[str, str | None] = {}
        for guest in together.guests:
            name = str(guest.scenario)
            expected, found = together.expected[name], actual[name]
            if partitions > 1:
                # Stores number their records by task, and subscriptions know their partition.
                expected, found = (_without_changelogs(one, guest.topic_prefix) for one in (expected, found))
            differences[name] = compare(expected, found, how_to_compare(guest.topology, size, partitions))
        return differences


@pytest.fixture(scope="session")
def laboratory(
    embedded_kafka: EmbeddedKafka, spark: SparkContext, tmp_path_factory: pytest.TempPathFactory
) -> Laboratory:
    return Laboratory(embedded_kafka.bootstrap_servers, lambda: tmp_path_factory.mktemp("scenarios"))


# --- which scenarios ---------------------------------------------------------------------------------------------


@cache
def why_not(scenario: Scenario) -> str | None:
    """Why a scenario cannot run on Spark in a test; None where it can."""
    if any(isinstance(event, Advance) for event in scenario.inputs):
        return "it moves the wall clock, which is real here"
    if any(isinstance(event, Pipe) and event.timestamp < 0 for event in scenario.inputs):
        return "a producer does not write negative timestamps"
    failure = run_on_headrace(scenario, cache_max_bytes=0).failure
    if failure is None and reads_from_the_end(build(scenario)):
        return "it reads what comes after its start, and the records are there before"
    if failure is not None:
        return f"it ends with an error ({failure.kind}), which would end the others of its application"
    return None


def reads_from_the_end(topology: Topology) -> bool:
    """Whether a source begins with the latest record."""
    return any(isinstance(node, SourceNode) and node.offset_reset == "latest" for node in topology.nodes.values())


def asks_and_answers(topology: Topology) -> bool:
    """Whether it has a foreign-key join, whose answers come with a later batch and may be out of date by then."""
    return any("subscription" in topic.lower() for topic in topology.internal_topics)


@cache
def groups() -> dict[str, tuple[Scenario, ...]]:
    """By scenario, those it runs together with: of the same configuration and of about as many batches.

    Those that must not lose their working copies are together."""
    fitting = [this_hour(one) for one in SCENARIOS if why_not(one) is None and str(one) not in ONE_BY_ONE]
    by_config: dict[tuple[str, bool], list[Scenario]] = {}
    for scenario in sorted(fitting, key=lambda one: len(batches_of(one, build(one), ALL))):
        by_config.setdefault((repr(scenario.config), lives_in_copies(build(scenario))), []).append(scenario)
    found: dict[str, tuple[Scenario, ...]] = {}
    for same in by_config.values():
        for start in range(0, len(same), TOGETHER):
            group = tuple(same[start : start + TOGETHER])
            found.update((str(scenario), group) for scenario in group)
    return found


@cache
def sample(*operators: str) -> tuple[Scenario, ...]:
    """The first scenario of each operator that fits and is short; of all operators by default."""
    first: dict[str, Scenario] = {}
    for scenario in SCENARIOS:
        chosen = not operators or scenario.operator in operators
        if chosen and scenario.config == Config() and len(scenario.inputs) <= SHORT and why_not(scenario) is None:
            first.setdefault(scenario.operator, this_hour(scenario))
    return tuple(first.values())


# --- the comparison ----------------------------------------------------------------------------------------------


View = Callable[[list[Written]], Sequence[object]]


def how_to_compare(topology: Topology, size: int, partitions: int) -> View:
    """What of a topic's records must be equal."""
    if size > 1 and asks_and_answers(topology):
        return rows
    several = partitions > 1 or any(count and count > 1 for count in topology.internal_topics.values())
    return by_key if several else list


def compare(expected: Results, actual: Results, how: View = list) -> str | None:
    """The first difference, as text; `how` says what of a topic's records is compared."""
    for topic in sorted({*expected, *actual}):
        driver, spark = (how(results.get(topic, [])) for results in (expected, actual))
        if driver != spark:
            return f"topic {topic}\n" + side_by_side(driver, spark, ("driver", "Spark"))
    return None


def _without_changelogs(results: Results, topic_prefix: str) -> Results:
    return {topic: records for topic, records in results.items() if topic.startswith(topic_prefix)}


def by_key(records: list[Written]) -> list[Written]:
    """The records of each key in their order; those without a key have none."""
    return sorted(records, key=lambda one: (one.key or b"", repr(one) if one.key is None else ""))


def rows(records: list[Written]) -> list[tuple[bytes | None, bytes | None]]:
    """The table that the records end with."""
    last = {one.key: one.value for one in by_key(records)}
    return [(key, value) for key, value in last.items() if value is not None]


def told(differences: Mapping[str, str | None]) -> str:
    """The scenarios that differ, each with how."""
    return "\n".join(f"{name}: {difference}" for name, difference in differences.items() if difference)


# --- the tests ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_spark_gives_the_drivers_result(scenario: Scenario, laboratory: Laboratory) -> None:
    reason = why_not(scenario) or ONE_BY_ONE.get(str(scenario))
    if reason is not None:
        pytest.skip(reason)
    found = laboratory.difference(scenario)
    assert found is None, found


def test_batches_of_one_record_give_the_drivers_result(laboratory: Laboratory) -> None:
    one_by_one = [this_hour(scenario) for scenario in SCENARIOS if str(scenario) in ONE_BY_ONE]
    assert len(one_by_one) == len(ONE_BY_ONE)
    differences = laboratory.run([*sample(), *one_by_one], 1)
    assert not any(differences.values()), told(differences)


def test_batches_of_three_records_give_the_drivers_result(laboratory: Laboratory) -> None:
    # Answers of a foreign-key join that come too late are dropped, and which ones depends on the batches.
    differences = laboratory.run([one for one in sample() if not asks_and_answers(build(one))], 3)
    assert not any(differences.values()), told(differences)


def test_topics_of_several_partitions_give_the_drivers_result_for_each_key(laboratory: Laboratory) -> None:
    assert len(sample(*PER_KEY)) == len(PER_KEY)
    differences = laboratory.run(sample(*PER_KEY), 1, partitions=3)
    assert not any(differences.values()), told(differences)
