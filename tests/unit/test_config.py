from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headrace import Serdes, StreamsConfig
from headrace.errors import ConfigError
from headrace.task.handlers import LogAndContinue, LogAndFail
from headrace.timestamps import WallclockTimestampExtractor


def test_defaults_are_kafka_streams_own() -> None:
    config = StreamsConfig()
    assert config.cache_max_bytes == 10 * 1024 * 1024
    assert config.deserialization_exception_handler is LogAndFail
    assert config.processing_exception_handler is LogAndFail
    assert config.production_exception_handler is LogAndFail
    assert config.bootstrap_servers is None


def test_the_commit_interval_follows_the_guarantee() -> None:
    assert StreamsConfig().commit_interval_ms is None
    assert StreamsConfig(commit_interval=timedelta(seconds=2)).commit_interval_ms == 2000


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"application_id": "my app"}, "application_id must consist of"),
        ({"application_id": ""}, "application_id must be a name"),
        ({"application_id": "a" * 250}, "at most 249"),
        ({"processing_guarantee": "twice"}, "processing_guarantee must be one of at_least_once, exactly_once_v2"),
        ({"cache_max_bytes": -1}, "cache_max_bytes must be at least 0"),
        ({"cache_max_bytes": "10"}, "cache_max_bytes must be an int"),
        ({"commit_interval": 5}, "commit_interval must be a datetime.timedelta"),
        ({"num_stream_threads": 0}, "num_stream_threads must be at least 1"),
        ({"replication_factor": 0}, "replication_factor"),
        ({"application_server": "localhost"}, "application_server must be host:port"),
        ({"default_key_serde": str}, "default_key_serde must be a Serde"),
        ({"processing_exception_handler": "continue"}, "processing_exception_handler must be"),
        ({"default_timestamp_extractor": 5}, "timestamp extractor is a function"),
        ({"dead_letter_queue_topic": "dead letters"}, "dead_letter_queue_topic must consist of"),
        ({"kafka": "sasl"}, "kafka must be a dict"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StreamsConfig(**settings)


def test_settings_come_from_the_environment_with_their_types() -> None:
    config = StreamsConfig.from_environment(
        {
            "HEADRACE_APPLICATION_ID": "orders",
            "HEADRACE_BOOTSTRAP_SERVERS": "localhost:9092",
            "HEADRACE_CACHE_MAX_BYTES": "5M",
            "HEADRACE_COMMIT_INTERVAL": "500ms",
            "HEADRACE_NUM_STANDBY_REPLICAS": "2",
            "HEADRACE_PROCESSING_EXCEPTION_HANDLER": "LogAndContinue",
            "HEADRACE_DEFAULT_TIMESTAMP_EXTRACTOR": "headrace.timestamps:WallclockTimestampExtractor",
            "HEADRACE_DEFAULT_KEY_SERDE": "string",
            "HEADRACE_KAFKA": '{"security.protocol": "SSL"}',
            "HEADRACE_STATE_DIR": "",
            "SOMETHING_ELSE": "x",
        }
    )
    assert config.application_id == "orders"
    assert config.bootstrap_servers == "localhost:9092"
    assert config.cache_max_bytes == 5 * 1024 * 1024
    assert config.commit_interval == timedelta(milliseconds=500)
    assert config.num_standby_replicas == 2
    assert config.processing_exception_handler is LogAndContinue
    assert config.default_timestamp_extractor is WallclockTimestampExtractor
    assert config.default_key_serde is not None
    assert config.default_key_serde.serialize("a") == b"a"
    assert config.kafka == {"security.protocol": "SSL"}
    assert config.state_dir is None


def test_overrides_go_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_APPLICATION_ID", "from-environment")
    monkeypatch.setenv("HEADRACE_CACHE_MAX_BYTES", "not a number")
    config = StreamsConfig.from_environment(cache_max_bytes=0, default_value_serde=Serdes.long())
    assert (config.application_id, config.cache_max_bytes) == ("from-environment", 0)


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("HEADRACE_CACHE_MAX_BYTES", "many", "a size is a number of bytes"),
        ("HEADRACE_COMMIT_INTERVAL", "5", "a duration is a number with a unit"),
        ("HEADRACE_NUM_STREAM_THREADS", "two", "a whole number is needed"),
        ("HEADRACE_DEFAULT_VALUE_SERDE", "varchar", "no such serde"),
        ("HEADRACE_PROCESSING_EXCEPTION_HANDLER", "no.such.module:fn", "No module named"),
    ],
)
def test_a_variable_that_cannot_be_read_is_named(variable: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"{variable}=.*{message}"):
        StreamsConfig.from_environment({variable: text})


@pytest.mark.parametrize("variable", ["HEADRACE_KAFKA", "HEADRACE_SPARK"])
def test_what_may_hold_secrets_is_not_shown(variable: str) -> None:
    with pytest.raises(ConfigError, match=f"{variable}: a JSON object is needed") as raised:
        StreamsConfig.from_environment({variable: '["sasl.password", "hush"]'})
    assert "hush" not in str(raised.value)
    assert "hush" not in repr(StreamsConfig(kafka={"sasl.password": "hush"}))
