"""What a batch reads: the driver itself where that is little, workers where it is much."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from headrace import Consumed, Serdes, StreamsBuilder
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.partitions import plan_partitions
from headrace.kafka.topics import Topics, TopicSpec
from headrace.spark.layout import lay_out
from headrace.spark.pace import Pace
from headrace.spark.ranges import Range
from headrace.spark.source import Source
from headrace.spark.tail import MOST_RECORDS

TEXT = Serdes.string()
PARTITIONS = 16


@pytest.fixture
def settings(embedded_kafka: EmbeddedKafka) -> ClientSettings:
    return ClientSettings(embedded_kafka.bootstrap_servers)


@pytest.fixture
def topic(settings: ClientSettings) -> str:
    name = f"planned-{uuid.uuid4().hex[:8]}"
    Topics(settings).create([TopicSpec(name, PARTITIONS, {"retention.ms": "-1"})])
    return name


@pytest.fixture
def source(settings: ClientSettings, topic: str) -> Iterator[Source]:
    builder = StreamsBuilder()
    builder.stream(topic, Consumed(key=TEXT, value=TEXT)).foreach(lambda key, value: None)
    topology = builder.build()
    known = {topic: PARTITIONS}
    layout = lay_out(topology, plan_partitions(topology, known), "planned", known)
    source = Source(settings, layout, "planned", {}, {}, Pace({}), changelogs={}, skips_lost=False)
    source.begin()
    yield source
    source.close()


def send(settings: ClientSettings, topic: str, count: int) -> None:
    producer = Producer(settings.producer())
    for number in range(count):
        producer.produce(topic, str(number), "k", number % PARTITIONS)
    producer.flush()


def values(ranges: list[Range]) -> set[str]:
    return {(value or b"").decode() for each in ranges for _, _, _, value, _ in each.rows or ()}


def test_what_is_little_is_read_by_the_driver(settings: ClientSettings, topic: str, source: Source) -> None:
    send(settings, topic, 48)
    assert values(source.plan()) == {str(number) for number in range(48)}


def test_a_flow_that_never_stops_is_read_by_the_driver(settings: ClientSettings, topic: str, source: Source) -> None:
    """Each batch finds something ahead, so nothing is ever waited for."""
    for _ in range(3):
        send(settings, topic, 32)
        ranges = source.plan()
        assert values(ranges) == {str(number) for number in range(32)}
        source.advance(ranges)
        source.look_again()


def test_what_is_much_is_left_to_the_workers(settings: ClientSettings, topic: str, source: Source) -> None:
    count = MOST_RECORDS + PARTITIONS
    send(settings, topic, count)
    ranges = source.plan()
    assert sum(each.end - each.start for each in ranges) == count
    assert all(each.rows is None for each in ranges)


def test_where_there_is_nothing_nothing_is_planned(source: Source) -> None:
    assert source.plan() == []


def test_a_changelog_with_more_partitions_is_told_of_once(
    settings: ClientSettings, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    changelog = f"{topic}-n-changelog"
    Topics(settings).create([TopicSpec(changelog, 2)])
    builder = StreamsBuilder()
    builder.stream(topic, Consumed(key=TEXT, value=TEXT)).foreach(lambda key, value: None)
    topology = builder.build()
    known = {topic: PARTITIONS}
    layout = lay_out(topology, plan_partitions(topology, known), "planned", known)
    source = Source(settings, layout, "planned", {}, {}, Pace({}), changelogs={changelog: 2}, skips_lost=False)
    source.begin()
    assert not caplog.records
    admin = AdminClient(settings.admin())
    admin.create_partitions([NewPartitions(changelog, 5)])[changelog].result()
    while Topics(settings).describe([changelog])[changelog] != 5:
        pass
    for _ in range(2):
        source.look_again()
        source.plan()
    [told] = caplog.records
    assert told.getMessage().startswith(f"Topic {changelog} has 5 partitions and had 2.")
    source.close()
