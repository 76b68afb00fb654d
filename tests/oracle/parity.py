"""One scenario on both sides."""

from __future__ import annotations

from py4j.java_gateway import JavaGateway

from headrace.task.compiled.setting import Compilation
from tests.oracle.headrace_side import run_on_headrace
from tests.oracle.kafka_side import run_on_kafka
from tests.oracle.outcome import Outcome, compare
from tests.oracle.scenario import Scenario

CACHES = {"cached": None, "uncached": 0}
"""Each scenario runs with Kafka Streams' default cache and without any."""

FORMS = (Compilation.ALWAYS, Compilation.NEVER)
"""Each scenario runs compiled and node by node."""


def difference(gateway: JavaGateway, scenario: Scenario, cache_max_bytes: int | None) -> str | None:
    """How Headrace differs from Kafka Streams; None where they agree."""
    return difference_from(run_on_kafka(gateway, scenario, cache_max_bytes), scenario, cache_max_bytes)


def difference_from(expected: Outcome, scenario: Scenario, cache_max_bytes: int | None) -> str | None:
    """How Headrace differs from what Kafka Streams made of the scenario, compiled and not."""
    for form in FORMS:
        actual = run_on_headrace(scenario, tuple(expected.stores), cache_max_bytes, form)
        found = compare(expected, actual, scenario.inputs)
        if found is not None:
            return f"{form.value} compiled: {found}"
    return None
