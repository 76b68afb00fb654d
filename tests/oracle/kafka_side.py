"""Runs a scenario on Kafka Streams' own test driver."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaGateway, JavaObject
from py4j.protocol import Py4JJavaError

from tests.oracle.boxes import Boxes, JavaLong
from tests.oracle.builder import StreamsBuilder
from tests.oracle.functions import KAFKA_SERDES, java_extractor_name
from tests.oracle.java_options import Options
from tests.oracle.java_stores import VersionedStore, wrap_store
from tests.oracle.low_level import Topology
from tests.oracle.outcome import Failure, Outcome, Written
from tests.oracle.scenario import Advance, Config, Event, Pipe, Scenario, start_trace, traced

_HANDLERS = "org.apache.kafka.streams.errors."
_GENERATED = ("KSTREAM-", "KTABLE-", "COGROUPKSTREAM-", "-STATE-STORE-", "-join-store", "-subscription-store")


def run_on_kafka(gateway: JavaGateway, scenario: Scenario, cache_max_bytes: int | None = None) -> Outcome:
    """What Kafka Streams makes of the scenario."""
    outcome = Outcome()
    builder = Topology(gateway) if scenario.is_low_level else StreamsBuilder(gateway)
    start_trace()
    try:
        scenario.topology(builder)
        topology = builder.build()
    except Py4JJavaError as error:
        outcome.failure = _failure(error, None)
        return outcome
    outcome.description = topology.describe().toString()
    with tempfile.TemporaryDirectory(prefix="oracle-", dir=_fast_directory()) as directory:
        properties = _properties(builder.bridge.boxes, scenario.config, cache_max_bytes, directory)
        _drive(builder.bridge.boxes, topology, properties, scenario, outcome)
    outcome.traced = traced()
    outcome.printed = builder.bridge.printed()
    return outcome


def _drive(boxes: Boxes, topology: JavaObject, properties: JavaObject, scenario: Scenario, outcome: Outcome) -> None:
    epoch = Options(boxes).instant(0)
    try:
        java = boxes.streams.TopologyTestDriver(topology, properties, epoch)
    except Py4JJavaError as error:
        outcome.failure = _failure(error, None)
        return
    with _closing(java, outcome):
        driver = _Driver(java, boxes)
        for index, event in enumerate(scenario.inputs):
            try:
                driver.happen(event)
            except Py4JJavaError as error:
                outcome.failure = _failure(error, index)
                return
            outcome.produced.append(driver.written())
        outcome.stores = driver.stores(scenario)


@contextmanager
def _closing(driver: JavaObject, outcome: Outcome) -> Iterator[None]:
    try:
        yield
    finally:
        try:
            driver.close()
        except Py4JJavaError:
            # A task that has failed may fail again while it closes; what counts is the first error.
            if outcome.failure is None:
                raise


class _Driver:
    def __init__(self, java: JavaObject, boxes: Boxes) -> None:
        self._java = java
        self._boxes = boxes
        self._options = Options(boxes)
        self._inputs: dict[str, JavaObject] = {}
        self._outputs: dict[str, JavaObject] = {}

    def happen(self, event: Event) -> None:
        if isinstance(event, Advance):
            self._java.advanceWallClockTime(self._options.duration(event.millis))
        else:
            record = self._boxes.streams.test.TestRecord(
                event.key, event.value, self._boxes.box_headers(event.headers), self._options.instant(event.timestamp)
            )
            self._input(event.topic).pipeInput(record)

    def _input(self, topic: str) -> JavaObject:
        if topic not in self._inputs:
            serializer = self._boxes.common.serialization.ByteArraySerializer()
            self._inputs[topic] = self._java.createInputTopic(topic, serializer, serializer)
        return self._inputs[topic]

    def written(self) -> dict[str, list[Written]]:
        """What was written since the last call."""
        names = self._java.producedTopicNames()
        if names.size() > len(self._outputs):
            deserializer = self._boxes.common.serialization.ByteArrayDeserializer()
            for topic in names.toArray():
                if topic not in self._outputs:
                    self._outputs[topic] = self._java.createOutputTopic(topic, deserializer, deserializer)
        result = {}
        for topic, output in self._outputs.items():
            if not output.isEmpty():
                result[topic] = [self._written(record) for record in output.readRecordsToList().toArray()]
        return result

    def _written(self, record: JavaObject) -> Written:
        headers = self._boxes.unbox_headers(record.headers())
        return Written(record.key(), record.value(), record.timestamp(), headers)

    def stores(self, scenario: Scenario) -> dict[str, list[Any]]:
        """The contents of the stores by name."""
        everything = self._java.getAllStateStores()
        names = scenario.stores
        if names is None:
            names = sorted(
                name for name in everything.keySet().toArray() if not any(part in name for part in _GENERATED)
            )
        result = {}
        for name in names:
            store = wrap_store(everything.get(name), self._boxes)
            if store is not None:
                result[name] = contents(store, isinstance(store, VersionedStore), scenario.inputs)
        return result


def contents(store: Any, is_versioned: bool, inputs: Sequence[Event]) -> list[Any]:
    """What is in a store: all pairs; of a versioned one the answers for each key and time that was piped."""
    if not is_versioned:
        return sorted(store.all(), key=repr)
    pipes = [event for event in inputs if isinstance(event, Pipe)]
    keys = sorted({event.key.decode() for event in pipes if event.key is not None})
    times = sorted({event.timestamp for event in pipes if event.timestamp >= 0})
    answers: list[Any] = []
    for key in keys:
        for as_of in (None, *times):
            answer = store.get(key, as_of=as_of)
            answers.append((key, as_of, None if answer is None else (answer.value, answer.timestamp)))
    return answers


def _properties(boxes: Boxes, config: Config, cache_max_bytes: int | None, directory: str) -> JavaObject:
    settings: dict[str, Any] = {
        "application.id": "app",
        "bootstrap.servers": "nowhere:9092",
        "state.dir": directory,
    }
    if cache_max_bytes is None:
        cache_max_bytes = config.cache_max_bytes
    if cache_max_bytes is not None:
        settings["statestore.cache.max.bytes"] = JavaLong(cache_max_bytes)
    for side, serde in (("key", config.default_key_serde), ("value", config.default_value_serde)):
        if serde is not None:
            settings[f"default.{side}.serde"] = (
                f"org.apache.kafka.common.serialization.Serdes${KAFKA_SERDES[serde.name]}Serde"
            )
    if config.default_timestamp_extractor is not None:
        extractor = java_extractor_name(config.default_timestamp_extractor)
        settings["default.timestamp.extractor"] = f"org.apache.kafka.streams.processor.{extractor}"
    answers = {"fail": "LogAndFail", "continue": "LogAndContinue"}
    if config.deserialization is not None:
        settings["deserialization.exception.handler"] = f"{_HANDLERS}{answers[config.deserialization]}ExceptionHandler"
    if config.processing is not None:
        handler = f"{_HANDLERS}{answers[config.processing]}ProcessingExceptionHandler"
        settings["processing.exception.handler"] = handler
    if config.dead_letter_topic is not None:
        settings["errors.dead.letter.queue.topic.name"] = config.dead_letter_topic
    properties = boxes.jvm.java.util.Properties()
    for name, value in settings.items():
        properties.put(name, value)
    return properties


_SIGNS = (
    ("exceeded its max capacity", "buffer full"),
    ("invalid (negative) timestamp", "timestamp"),
    ("Could not infer new timestamp", "timestamp"),
    ("Fatal user code error", "fatal"),
    ("Deserialization exception handler is set to fail", "deserialization"),
    ("Unable to serialize record", "production"),
    ("ClassCastException while producing", "production"),
)


def _failure(error: Py4JJavaError, event: int | None) -> Failure:
    messages = []
    exception = error.java_exception
    while exception is not None:
        messages.append(f"{exception.getClass().getSimpleName()}: {exception.getMessage()}")
        exception = exception.getCause()
    return Failure("setup" if event is None else _kind(messages), event, " <- ".join(messages))


def _kind(messages: list[str]) -> str:
    found = (kind for sign, kind in _SIGNS for message in messages if sign in message)
    return next(found, "processing")


def _fast_directory() -> str | None:
    shared_memory = Path("/dev/shm")
    return str(shared_memory) if shared_memory.is_dir() and os.access(shared_memory, os.W_OK) else None
