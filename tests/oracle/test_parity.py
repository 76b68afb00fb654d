"""Every scenario on Headrace and on Kafka Streams: outputs, order, times, headers, stores, changelogs, describe()."""

from __future__ import annotations

import pytest
from py4j.java_gateway import JavaGateway

from tests.oracle.parity import CACHES, difference
from tests.oracle.scenario import Scenario, all_scenarios


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("scenario", all_scenarios(), ids=str)
def test_agrees_with_kafka_streams(gateway: JavaGateway, scenario: Scenario, cache: str) -> None:
    found = difference(gateway, scenario, CACHES[cache])
    assert found is None, found
