"""The words application on Kafka and Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from examples.words import topology
from examples.words.aggregations import AGGREGATED, COUNTED, REDUCED, AlphabetWordAggregate, aggregate_json, number
from examples.words.joins import ABBREVIATIONS, ALPHABETS, JOINED, Alphabet, alphabet_json
from examples.words.joins import topology as join_topology
from examples.words.pipeline import config
from examples.words.tables import WORDS, text
from examples.words.windows import INGESTION_TOPIC, KINDS, TIMES, WINDOWED, clock, side_by_side
from headrace import Serde, Streams
from headrace.errors import TopologyError
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import TopicSpec
from tests.examples.on_kafka import Broker
from tests.examples.words.running import SECOND, build

pytestmark = pytest.mark.acceptance

A = "A is the first letter in English Alphabets."
HOUR = 60 * 60 * SECOND


@pytest.fixture
def broker(embedded_kafka: EmbeddedKafka, spark: SparkContext, tmp_path: Path) -> Iterator[Broker]:
    yield Broker(embedded_kafka.bootstrap_servers, tmp_path)


def latest(broker: Broker, topic: str, serde: Serde) -> dict[str, object]:
    """The last value of each key of a topic."""
    return {(key or b"").decode(): serde.deserialize(value) for key, value, *_ in broker.read(topic)}


def test_the_application_does_all_of_it(broker: Broker) -> None:
    names = (WORDS, ALPHABETS, ABBREVIATIONS, COUNTED, REDUCED, AGGREGATED, WINDOWED, JOINED)
    with broker.topics(TopicSpec(name, 2) for name in names):
        broker.send(WORDS, ("A", "Apple"), ("B", "Bus"), (None, "Nobody"), ("A", "Alpha"), ("A", "Ant"))
        broker.send(ALPHABETS, ("A", A), timestamp=1)
        broker.send(ABBREVIATIONS, ("A", "Apple"), ("Z", "Zoo"))
        with Streams(topology(), broker.config(config)) as streams:
            streams.process_all_available()

        assert latest(broker, COUNTED, number) == {"A": 3, "B": 1}
        assert latest(broker, REDUCED, text) == {"A": "Apple-Alpha-Ant", "B": "Bus"}
        assert latest(broker, AGGREGATED, aggregate_json) == {
            "A": AlphabetWordAggregate("A", ["Apple", "Alpha", "Ant"], 3),
            "B": AlphabetWordAggregate("B", ["Bus"], 1),
        }
        assert latest(broker, JOINED, alphabet_json) == {"A": Alphabet("Apple", A)}
        assert broker.read(WINDOWED)


def test_each_kind_of_time_has_windows_of_its_own(broker: Broker) -> None:
    made = int(time.time() * 1000) - HOUR
    topics = [TopicSpec(f"words-{kind}", 1) for kind in TIMES if f"words-{kind}" != INGESTION_TOPIC.name]
    with broker.topics([*topics, INGESTION_TOPIC, *(TopicSpec(f"windows-{kind}", 1) for kind in TIMES)]):
        for kind in TIMES:
            broker.send(f"words-{kind}", ("A", "Apple"), timestamp=made)
        ((_, _, appended, _),) = broker.read(INGESTION_TOPIC.name)
        assert appended is not None
        started = time.time() * 1000
        with Streams(build(side_by_side), broker.config(config)) as streams:
            streams.process_all_available()
        ended = time.time() * 1000

        counts = {kind: latest(broker, f"windows-{kind}", number) for kind in TIMES}
        ((_, _, processed, _), *_) = broker.read("windows-processing-time")
    assert processed is not None
    assert made + HOUR <= appended <= started <= processed <= ended
    for kind, moment in (("event-time", made), ("ingestion-time", appended), ("processing-time", processed)):
        start = moment // (5 * SECOND) * 5 * SECOND
        assert counts[kind][f"tumbling A {clock(start)}-{clock(start + 5 * SECOND)}"] == 1
        assert counts[kind][f"session A {clock(moment)}-{clock(moment)}"] == 1
        assert {key.split()[0] for key in counts[kind]} == set(KINDS)


@pytest.mark.parametrize("join", ["stream_table", "table_table", "stream_stream"])
def test_topics_of_different_sizes_cannot_be_joined(broker: Broker, join: str) -> None:
    specs = (TopicSpec(ABBREVIATIONS, 2), TopicSpec(ALPHABETS, 4), TopicSpec(JOINED, 2))
    refused = pytest.raises(
        TopologyError,
        match="topics that are joined must have the same number of partitions, "
        "but alphabets has 4, alphabets-abbreviations has 2",
    )
    with broker.topics(specs), refused:
        Streams(join_topology(join), broker.config(config)).start()


def test_a_repartition_makes_topics_of_different_sizes_fit(broker: Broker) -> None:
    with broker.topics((TopicSpec(ABBREVIATIONS, 2), TopicSpec(ALPHABETS, 4), TopicSpec(JOINED, 2))):
        letters = [chr(code) for code in range(ord("A"), ord("K"))]
        broker.send(ALPHABETS, *((letter, f"{letter} is a letter.") for letter in letters), timestamp=1)
        broker.send(ABBREVIATIONS, *((letter, f"{letter}-word") for letter in letters))
        with Streams(join_topology("repartitioned"), broker.config(config)) as streams:
            streams.process_all_available()

        assert latest(broker, JOINED, alphabet_json) == {
            letter: Alphabet(f"{letter}-word", f"{letter} is a letter.") for letter in letters
        }
