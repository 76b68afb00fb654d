"""Batches with more to do than one Spark task should have: several run side by side, with a shuffle between stages."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark import SparkContext

from headrace import Consumed, Grouped, Produced, Serdes, Streams, StreamsBuilder, StreamsConfig, Topology
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec
from headrace.spark.tail import MOST_RECORDS
from tests.spark.running import read_all

TEXT, LONG = Serdes.string(), Serdes.long()
PARTITIONS = 2
RECORDS = 5 * MOST_RECORDS
KEYS = 7


@pytest.fixture
def application_id(embedded_kafka: EmbeddedKafka) -> str:
    """An application with topics, and many records in its source."""
    name = f"large-{uuid.uuid4().hex[:8]}"
    settings = ClientSettings(embedded_kafka.bootstrap_servers)
    Topics(settings).create([TopicSpec(f"{name}.{topic}", PARTITIONS) for topic in ("in", "copies", "counts")])
    producer = Producer(settings.producer(enable_idempotence=True, partitioner="murmur2_random"))
    for number in range(RECORDS):
        producer.produce(f"{name}.in", str(number), f"key-{number % KEYS}")
    producer.flush()
    return name


def topology(application_id: str) -> Topology:
    """Passes on what it reads, counts it, and counts it under other keys, behind a repartition."""
    builder = StreamsBuilder()
    records = builder.stream(f"{application_id}.in", Consumed(key=TEXT, value=TEXT))
    records.to(f"{application_id}.copies", Produced(key=TEXT, value=TEXT))
    records.group_by_key(Grouped(key=TEXT, value=TEXT)).count("own")
    grouped = records.group_by(lambda key, value: f"other {key}", Grouped(key=TEXT, value=TEXT))
    grouped.count("counts").to_stream().to(f"{application_id}.counts", Produced(key=TEXT, value=LONG))
    return builder.build()


def test_results_and_changelogs_keep_the_order_of_a_key(
    application_id: str, embedded_kafka: EmbeddedKafka, spark: SparkContext, tmp_path: Path
) -> None:
    """A changelog that ends with an older value than the store has would lose updates when the store is rebuilt."""
    config = StreamsConfig(
        application_id=application_id,
        bootstrap_servers=embedded_kafka.bootstrap_servers,
        state_dir=str(tmp_path),
        cache_max_bytes=0,
    )
    batches = []
    with Streams(topology(application_id), config) as application:
        application.on_progress(batches.append)
        application.process_all_available()
    assert max(batch.records for batch in batches) > MOST_RECORDS

    settings = ClientSettings(embedded_kafka.bootstrap_servers)
    copies = by_key(settings, f"{application_id}.copies", TEXT)
    assert copies == {f"key-{key}": [str(number) for number in range(key, RECORDS, KEYS)] for key in range(KEYS)}
    own = {key: list(range(1, len(values) + 1)) for key, values in copies.items()}
    assert by_key(settings, f"{application_id}-own-changelog", LONG) == own
    others = {f"other {key}": counts for key, counts in own.items()}
    assert by_key(settings, f"{application_id}.counts", LONG) == others
    assert by_key(settings, f"{application_id}-counts-changelog", LONG) == others


def by_key(settings: ClientSettings, topic: str, serde: Serdes) -> dict[str | None, list[object]]:
    found: dict[str | None, list[object]] = {}
    for key, value, _, _ in read_all(settings, topic):
        found.setdefault(TEXT.deserialize(key), []).append(serde.deserialize(value))
    return found
