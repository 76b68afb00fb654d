from __future__ import annotations

from collections.abc import Callable

import pytest
from py4j.java_gateway import JavaGateway

from tests.oracle.kafka_side import run_on_kafka
from tests.oracle.outcome import Outcome
from tests.oracle.parity import CACHES
from tests.oracle.scenario import Scenario


@pytest.fixture(scope="session")
def on_kafka(gateway: JavaGateway) -> Callable[[Scenario, str], Outcome]:
    """Runs a scenario on Kafka Streams, once for all tests."""
    outcomes: dict[tuple[str, str], Outcome] = {}

    def run(scenario: Scenario, cache: str) -> Outcome:
        found = (str(scenario), cache)
        if found not in outcomes:
            outcomes[found] = run_on_kafka(gateway, scenario, CACHES[cache])
        return outcomes[found]

    return run
