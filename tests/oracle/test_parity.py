"""Every scenario on Headrace and on Kafka Streams: outputs, order, times, headers, stores, changelogs, describe()."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.oracle.outcome import Outcome
from tests.oracle.parity import CACHES, difference_from
from tests.oracle.scenario import Scenario, all_scenarios


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("scenario", all_scenarios(), ids=str)
def test_agrees_with_kafka_streams(
    on_kafka: Callable[[Scenario, str], Outcome], scenario: Scenario, cache: str
) -> None:
    found = difference_from(on_kafka(scenario, cache), scenario, CACHES[cache])
    assert found is None, found
