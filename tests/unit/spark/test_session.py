from __future__ import annotations

import pytest

from headrace.errors import ConfigError
from headrace.spark.pace import MOST_BYTES, Pace
from headrace.spark.session import check_options, skips_lost


def test_settings_are_sparks_or_those_of_a_batch() -> None:
    check_options({"spark.ui.enabled": True, "maxOffsetsPerTrigger": 5_000, "failOnDataLoss": "false"})
    with pytest.raises(ConfigError, match=r"'startingOffsets' is not known.*maxOffsetsPerTrigger and failOnDataLoss"):
        check_options({"startingOffsets": "latest"})


def test_lost_records_are_an_error_unless_it_is_said_otherwise() -> None:
    assert not skips_lost({})
    assert not skips_lost({"failOnDataLoss": "true"})
    assert skips_lost({"failondataloss": False})


def test_a_batch_has_as_many_records_as_the_last_ones_taught() -> None:
    pace = Pace({})
    assert pace.records == 100_000
    pace.learn(100_000, 10_000_000, 2.0)
    assert pace.records == 50_000, "as many as a second takes"
    pace.learn(100_000, 10_000_000, 0.2)
    assert pace.records == 500_000
    pace.learn(100, 100 * (MOST_BYTES // 10), 0.1)
    assert pace.records == 10, "large records: as many as fit"
    pace.learn(8, 800, 30.0)
    assert pace.records == 500_000, "what a small batch takes says nothing of a large one"


@pytest.mark.parametrize("partitions", [1, 3, 64, 600])
def test_batches_grow_again_after_a_slow_one(partitions: int) -> None:
    pace = Pace({})
    pace.learn(50_000, 10_000_000, 60.0)
    assert pace.records == 1_000
    for _ in range(20):
        records = partitions * max(1, pace.records // partitions)
        pace.learn(records, records * 200, records / 200_000)
    assert pace.records == 200_000


def test_the_users_limit_is_kept() -> None:
    pace = Pace({"maxOffsetsPerTrigger": "15"})
    assert pace.records == 15
    pace.learn(15, 1_000, 0.001)
    assert pace.records == 15
    for wrong in ("many", 0):
        with pytest.raises(ConfigError, match="maxOffsetsPerTrigger"):
            Pace({"maxOffsetsPerTrigger": wrong})
