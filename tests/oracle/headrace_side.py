"""Runs a scenario on Headrace's test driver."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import redirect_stdout
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import headrace
from headrace import errors
from headrace.task.compiled.setting import VARIABLE, Compilation
from headrace.testing import TopologyTestDriver
from tests.oracle.kafka_side import contents
from tests.oracle.outcome import Failure, Outcome, Written
from tests.oracle.scenario import Advance, Config, Event, Scenario, start_trace, traced


def run_on_headrace(
    scenario: Scenario,
    stores: Sequence[str] = (),
    cache_max_bytes: int | None = None,
    compilation: Compilation = Compilation.WHEN_HOT,
) -> Outcome:
    """What Headrace makes of the scenario."""
    outcome = Outcome()
    printed = io.StringIO()
    start_trace()
    with redirect_stdout(printed), patch.dict(os.environ, {VARIABLE: compilation.value}):
        topology = build(scenario, outcome)
        if topology is not None:
            _drive(topology, scenario, stores, config_of(scenario.config, cache_max_bytes), outcome)
    outcome.traced = traced()
    outcome.printed = printed.getvalue().splitlines()
    return outcome


def build(scenario: Scenario, outcome: Outcome) -> Any:
    """The topology, or None where that fails; its description is part of the outcome."""
    try:
        if scenario.is_low_level:
            topology = headrace.Topology()
            scenario.topology(topology)
        else:
            builder = headrace.StreamsBuilder()
            scenario.topology(builder)
            topology = builder.build()
    except errors.HeadraceError as error:
        outcome.failure = failure_of(error, None)
        return None
    outcome.description = str(topology.describe())
    return topology


def _drive(
    topology: Any, scenario: Scenario, stores: Sequence[str], config: headrace.StreamsConfig, outcome: Outcome
) -> None:
    try:
        driver = TopologyTestDriver(topology, config, initial_wall_clock=0)
    except errors.HeadraceError as error:
        outcome.failure = failure_of(error, None)
        return
    with driver:
        seen = 0
        for index, event in enumerate(scenario.inputs):
            try:
                happen(driver, event)
            except Exception as error:
                # Whatever it is, it is an outcome to compare.
                outcome.failure = failure_of(error, index)
                return
            produced = driver.produced()
            outcome.produced.append(by_topic(produced[seen:]))
            seen = len(produced)
        for name in stores:
            store = driver.store(name)
            outcome.stores[name] = contents(store, not hasattr(store, "all"), scenario.inputs)


def happen(driver: Any, event: Event) -> None:
    """Lets an event happen in the driver."""
    if isinstance(event, Advance):
        driver.advance_wall_clock(timedelta(milliseconds=event.millis))
    else:
        raw = headrace.Serdes.bytes()
        topic = driver.input_topic(event.topic, key=raw, value=raw)
        topic.pipe(event.key, event.value, timestamp=event.timestamp, headers=event.headers)


def by_topic(produced: Sequence[Any]) -> dict[str, list[Written]]:
    """What a driver has produced, by topic."""
    result: dict[str, list[Written]] = {}
    for topic, record in produced:
        written = Written(record.key, record.value, record.timestamp, tuple(record.headers))
        result.setdefault(topic, []).append(written)
    return result


def config_of(config: Config, cache_max_bytes: int | None) -> headrace.StreamsConfig:
    """The settings of a scenario; its cache or another."""
    settings: dict[str, Any] = {"application_id": "app"}
    if cache_max_bytes is None:
        cache_max_bytes = config.cache_max_bytes
    handlers = {"fail": headrace.LogAndFail, "continue": headrace.LogAndContinue, None: None}
    given = {
        "cache_max_bytes": cache_max_bytes,
        "default_key_serde": config.default_key_serde,
        "default_value_serde": config.default_value_serde,
        "default_timestamp_extractor": config.default_timestamp_extractor,
        "deserialization_exception_handler": handlers[config.deserialization],
        "processing_exception_handler": handlers[config.processing],
        "dead_letter_queue_topic": config.dead_letter_topic,
    }
    settings.update((name, value) for name, value in given.items() if value is not None)
    return headrace.StreamsConfig(**settings)


_KINDS: tuple[tuple[type[Exception], str], ...] = (
    (errors.BufferFullError, "buffer full"),
    (errors.InvalidTimestampError, "timestamp"),
    (errors.DeserializationFailed, "deserialization"),
    (errors.ProductionFailed, "production"),
    (errors.ProcessingFailed, "processing"),
)


def failure_of(error: BaseException, event: int | None) -> Failure:
    """An error as part of the outcome."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None:
        chain.append(cause)
        cause = cause.__cause__
    detail = " <- ".join(f"{type(one).__name__}: {one}" for one in chain)
    if event is None:
        return Failure("setup", None, detail)
    found = (kind for type_, kind in _KINDS for one in chain if isinstance(one, type_))
    otherwise = "fatal" if type(error) is errors.StreamsError else f"unexpected {type(error).__name__}"
    return Failure(next(found, otherwise), event, detail)
