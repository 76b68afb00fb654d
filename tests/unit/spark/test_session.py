from __future__ import annotations

from headrace.spark.session import source_options


def test_what_is_not_a_setting_of_sparks_is_an_option_of_its_kafka_source() -> None:
    settings = {"spark.ui.enabled": True, "maxOffsetsPerTrigger": 5_000}
    assert source_options(settings) == {"maxOffsetsPerTrigger": "5000"}
