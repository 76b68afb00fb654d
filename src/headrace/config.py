"""StreamsConfig: the settings of an application, given in Python or in the environment."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any

from headrace.duration import to_millis
from headrace.errors import ConfigError
from headrace.serdes import Serde
from headrace.task.handlers import Handler, LogAndContinue, LogAndFail, handler_of
from headrace.timestamps import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    TimestampExtractor,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
    extractor_of,
)

AT_LEAST_ONCE = "at_least_once"
EXACTLY_ONCE_V2 = "exactly_once_v2"
GUARANTEES = (AT_LEAST_ONCE, EXACTLY_ONCE_V2)

MAX_TOPIC_LENGTH = 249
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_HANDLER_SETTINGS = (
    "deserialization_exception_handler",
    "processing_exception_handler",
    "production_exception_handler",
)
_MAY_BE_SECRET = ("kafka", "spark")
_NAMED = {
    made.__name__: made
    for made in (
        LogAndFail,
        LogAndContinue,
        FailOnInvalidTimestamp,
        LogAndSkipOnInvalidTimestamp,
        UsePartitionTimeOnInvalidTimestamp,
        WallclockTimestampExtractor,
    )
}


@dataclass(frozen=True)
class StreamsConfig:
    """The settings of an application; the names are Kafka Streams'."""

    application_id: str | None = None
    """Prefix of the internal topics and name of the consumer group; the test driver does without one."""
    bootstrap_servers: str | None = None
    """None is the embedded Kafka."""
    default_key_serde: Serde[Any] | None = None
    default_value_serde: Serde[Any] | None = None
    processing_guarantee: str = EXACTLY_ONCE_V2
    commit_interval: timedelta | None = None
    """How often a batch is begun and committed; None is as soon as the last one is done."""
    cache_max_bytes: int = 10 * 1024 * 1024
    """What all caches of a thread may hold; 0 sends every update downstream."""
    deserialization_exception_handler: Handler | type[Any] = LogAndFail
    processing_exception_handler: Handler | type[Any] = LogAndFail
    production_exception_handler: Handler | type[Any] = LogAndFail
    dead_letter_queue_topic: str | None = None
    """Where LogAndFail and LogAndContinue send the records they are told of."""
    default_timestamp_extractor: TimestampExtractor | type[Any] = FailOnInvalidTimestamp
    application_server: str | None = None
    """host:port at which this instance can be asked."""
    replication_factor: int = -1
    """Of internal topics; -1 is the broker's default."""
    num_standby_replicas: int = 0
    num_stream_threads: int | None = None
    """How many tasks run at once; None is as many as there are cores."""
    state_dir: str | None = None
    spark: Mapping[str, Any] = field(default_factory=dict)
    """Spark's settings, `spark.…`, and those of a batch: maxOffsetsPerTrigger, failOnDataLoss."""
    kafka: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Settings of the Kafka clients: SASL, TLS, …"""

    def __post_init__(self) -> None:
        for setting in ("application_id", "dead_letter_queue_topic"):
            check_topic_name(getattr(self, setting), setting)
        for setting in ("default_key_serde", "default_value_serde"):
            serde = getattr(self, setting)
            if serde is not None and not isinstance(serde, Serde):
                raise ConfigError(f"{setting} must be a Serde such as Serdes.string(), not {serde!r}")
        if self.processing_guarantee not in GUARANTEES:
            raise ConfigError(
                f"processing_guarantee must be one of {', '.join(GUARANTEES)}, not {self.processing_guarantee!r}"
            )
        if self.commit_interval is not None:
            to_millis(self.commit_interval, "commit_interval")
        _check_number(self.cache_max_bytes, "cache_max_bytes", 0)
        _check_number(self.num_standby_replicas, "num_standby_replicas", 0)
        if self.num_stream_threads is not None:
            _check_number(self.num_stream_threads, "num_stream_threads", 1)
        _check_number(self.replication_factor, "replication_factor", -1)
        if self.replication_factor == 0:
            raise ConfigError("replication_factor must be at least 1, or -1 for the broker's default, not 0")
        for setting in _HANDLER_SETTINGS:
            handler_of(getattr(self, setting), setting)
        extractor_of(self.default_timestamp_extractor)
        if self.application_server is not None:
            _check_address(self.application_server)
        for setting in ("spark", "kafka"):
            if not isinstance(getattr(self, setting), Mapping):
                raise ConfigError(f"{setting} must be a dict of settings, not {getattr(self, setting)!r}")

    @property
    def commit_interval_ms(self) -> int | None:
        """The commit interval in milliseconds, None where there is none."""
        return None if self.commit_interval is None else to_millis(self.commit_interval, "commit_interval")

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] | None = None, base: StreamsConfig | None = None, /, **overrides: Any
    ) -> StreamsConfig:
        """The settings of the variables HEADRACE_APPLICATION_ID, HEADRACE_BOOTSTRAP_SERVERS, …; `overrides` go first.

        What neither gives is as in `base`.

        Durations are a number with a unit (500ms, 30s, 5m, 1h), sizes may end in K, M or G, `spark` and `kafka`
        are JSON objects, and serdes, handlers and extractors are Headrace's names or `module:name`.
        """
        variables = os.environ if environment is None else environment
        settings: dict[str, Any] = {}
        for known in fields(cls):
            variable = f"HEADRACE_{known.name.upper()}"
            text = variables.get(variable)
            if known.name in overrides or text is None or not text.strip():
                continue
            try:
                settings[known.name] = _PARSERS.get(known.name, str)(text.strip())
            except (ValueError, ConfigError) as error:
                shown = "" if known.name in _MAY_BE_SECRET else f"={text!r}"
                raise ConfigError(f"{variable}{shown}: {error}") from None
        return replace(base or cls(), **settings, **overrides)


def check_topic_name(name: str | None, setting: str) -> None:
    """Raises ConfigError if Kafka would not take the name for a topic, or as the beginning of one."""
    if name is None:
        return
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{setting} must be a name, not {name!r}")
    if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise ConfigError(
            f"{setting} must consist of ASCII letters, digits, '.', '_' and '-', as topics are named after it, "
            f"not {name!r}"
        )
    if len(name) > MAX_TOPIC_LENGTH:
        raise ConfigError(f"{setting} must have at most {MAX_TOPIC_LENGTH} characters, not {len(name)}")


def _check_number(number: Any, setting: str, minimum: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise ConfigError(f"{setting} must be an int, not {number!r}")
    if number < minimum:
        raise ConfigError(f"{setting} must be at least {minimum}, not {number}")


def _check_address(address: str) -> None:
    host, separator, port = address.rpartition(":")
    if not separator or not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"application_server must be host:port, such as localhost:8080, not {address!r}")


# --- the environment ---------------------------------------------------------------------------------------------

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def _duration(text: str) -> timedelta:
    matched = re.fullmatch(r"(\d+)\s*(ms|s|m|h|d)", text)
    if matched is None:
        raise ValueError("a duration is a number with a unit: 500ms, 30s, 5m, 1h")
    return timedelta(milliseconds=int(matched[1]) * _UNITS[matched[2]])


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("a whole number is needed") from None


def _size(text: str) -> int:
    matched = re.fullmatch(r"(-?\d+)\s*([kKmMgG]?)", text)
    if matched is None:
        raise ValueError("a size is a number of bytes, or one with K, M or G")
    return int(matched[1]) * _SIZES[matched[2].lower()]


def _settings(text: str) -> dict[str, Any]:
    try:
        settings = json.loads(text)
    except ValueError as error:
        raise ValueError(f'a JSON object is needed, such as {{"a.b": "c"}} ({error})') from None
    if not isinstance(settings, dict):
        raise ValueError('a JSON object is needed, such as {"a.b": "c"}')
    return settings


def _imported(text: str) -> Any:
    module_name, separator, name = text.partition(":")
    if not separator:
        raise ValueError("a name of Headrace or module:name is needed")
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ValueError(str(error)) from None
    return found


def _function(text: str) -> Any:
    return _NAMED[text] if text in _NAMED else _imported(text)


def _serde(text: str) -> Any:
    from headrace.serdes import Serdes

    if text.isidentifier():
        factory = getattr(Serdes, text, None)
        if factory is None:
            raise ValueError("no such serde; Serdes has string, bytes, long, json, …; or give module:name")
        return factory()
    found = _imported(text)
    return found() if callable(found) and not isinstance(found, Serde) else found


_PARSERS: dict[str, Callable[[str], Any]] = {
    "default_key_serde": _serde,
    "default_value_serde": _serde,
    "commit_interval": _duration,
    "cache_max_bytes": _size,
    **dict.fromkeys(_HANDLER_SETTINGS, _function),
    "default_timestamp_extractor": _function,
    "replication_factor": _number,
    "num_standby_replicas": _number,
    "num_stream_threads": _number,
    "spark": _settings,
    "kafka": _settings,
}
