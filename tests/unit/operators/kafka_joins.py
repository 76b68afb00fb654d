"""Topologies with a join or suppress, run by Kafka Streams' own test driver."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

KSTREAM = "org.apache.kafka.streams.kstream"

Input = tuple[str, "str | None", "str | None", int]
"""Topic, key, value, timestamp."""

NEXT = ("next", "input", -1)
"""Stands between the results of one input and those of the next."""


@dataclass
class Outcome:
    """What came of a run: results in order, changelog records by store, and how many records were dropped."""

    results: list[tuple[Any, Any, int]] = field(default_factory=list)
    logged: dict[str, list[tuple[bytes, bytes | None, int | None]]] = field(default_factory=dict)
    dropped: int = 0


def function(interface: str, method: str, body: Callable[..., Any]) -> Any:
    """A Python function as a Java object of that interface."""
    java = type("Java", (), {"implements": [interface]})
    return type("Function", (), {method: lambda self, *arguments: body(*arguments), "Java": java})()


def joiner(body: Callable[[Any, Any], Any]) -> Any:
    """A ValueJoiner."""
    return function(f"{KSTREAM}.ValueJoiner", "apply", body)


class KafkaJoins:
    """Builds and runs topologies of strings; results are what reaches the topic `out`."""

    def __init__(self, jvm: Any) -> None:
        self.jvm = jvm
        self.streams = jvm.org.apache.kafka.streams

    def millis(self, millis: int) -> Any:
        """A Duration."""
        return self.jvm.java.time.Duration.ofMillis(millis)

    def materialized(self, name: str) -> Any:
        """A store of strings without a cache."""
        string = self.jvm.org.apache.kafka.common.serialization.Serdes.String()
        materialized = getattr(self.streams.kstream.Materialized, "as")(name).withCachingDisabled()
        return materialized.withKeySerde(string).withValueSerde(string)

    def run(
        self, build: Callable[[Any], None], inputs: Sequence[Input], stores: Sequence[str] = (), cache: int = 0
    ) -> Outcome:
        """Builds the topology and pipes the inputs through it, one by one."""
        java_serdes = self.jvm.org.apache.kafka.common.serialization
        builder = self.streams.StreamsBuilder()
        build(builder)
        with tempfile.TemporaryDirectory() as directory:
            config = self.jvm.java.util.Properties()
            string = "org.apache.kafka.common.serialization.Serdes$StringSerde"
            for name, value in (
                ("application.id", "app"),
                ("bootstrap.servers", "none:1"),
                ("statestore.cache.max.bytes", str(cache)),
                ("default.key.serde", string),
                ("default.value.serde", string),
                ("state.dir", directory),
            ):
                config.put(name, value)
            driver = self.streams.TopologyTestDriver(builder.build(), config)
            try:
                return self._pipe(driver, inputs, stores, java_serdes)
            finally:
                driver.close()

    def _pipe(self, driver: Any, inputs: Sequence[Input], stores: Sequence[str], java_serdes: Any) -> Outcome:
        serializer, deserializer = java_serdes.StringSerializer(), java_serdes.StringDeserializer()
        as_bytes = java_serdes.ByteArrayDeserializer()
        topics = {topic: driver.createInputTopic(topic, serializer, serializer) for topic in {i[0] for i in inputs}}
        out = driver.createOutputTopic("out", deserializer, deserializer)
        outcome = Outcome()
        for topic, key, value, timestamp in inputs:
            topics[topic].pipeInput(key, value, timestamp)
            while not out.isEmpty():
                record = out.readRecord()
                outcome.results.append((record.key(), record.value(), record.timestamp()))
            outcome.results.append(NEXT)
        for store in stores:
            records = driver.createOutputTopic(f"app-{store}-changelog", as_bytes, as_bytes).readRecordsToList()
            outcome.logged[store] = [(r.key(), r.value(), r.timestamp()) for r in records]
        for entry in driver.metrics().entrySet():
            if entry.getKey().name() == "dropped-records-total":
                outcome.dropped += int(entry.getValue().metricValue())
        return outcome
