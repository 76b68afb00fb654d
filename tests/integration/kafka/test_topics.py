"""Topics on a real broker."""

from __future__ import annotations

import time
import uuid
from datetime import timedelta

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import headrace as hr
from headrace.errors import ConfigError, EnvironmentFailed, TopologyError, UnknownTopicError
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.partitions import plan_partitions, source_topics
from headrace.kafka.topics import Topics, TopicSpec, changelog_topics, is_internal, repartition_topics
from tests.integration.kafka.records import consume, produce

DAY_MS = 86_400_000


@pytest.fixture
def own() -> str:
    """What the names of a test's topics begin with: many tests share the broker."""
    return f"topics-{uuid.uuid4().hex[:8]}"


def windowed_counts(source: str) -> hr.Topology:
    strings = hr.Serdes.string()
    builder = hr.StreamsBuilder()
    orders = builder.stream(source, hr.Consumed(strings, strings))
    by_store = orders.group_by(lambda k, v: v, hr.Grouped(strings, strings, name="by-store"))
    by_store.count(materialized="counts")
    windows = hr.TimeWindows(timedelta(minutes=1))
    by_store.windowed_by(windows).count(materialized="windows")
    return builder.build()


def test_missing_topics_are_all_named_with_the_command_that_makes_them(topics: Topics, own: str) -> None:
    there, missing = f"{own}-there", [f"{own}-missing-1", f"{own}-missing-2"]
    topics.create([TopicSpec(there, 1)])
    with pytest.raises(UnknownTopicError) as caught:
        topics.require([missing[0], there, missing[1]])
    message = str(caught.value)
    assert f"has no topic {missing[0]}, {missing[1]}, which the topology reads" in message
    assert "headrace run … --create-topics" in message
    assert f"--create --topic {missing[1]} --partitions" in message


def test_internal_topics_have_kafka_streams_names_partitions_and_settings(topics: Topics, own: str) -> None:
    source, app = f"{own}-orders", f"{own}-app"
    topics.create([TopicSpec(source, 3)])
    topology = windowed_counts(source)
    plan = plan_partitions(topology, topics.require(source_topics(topology)))
    specs = repartition_topics(app, plan) + changelog_topics(app, topology, plan)
    repartition, counts, windows = (
        f"{app}-by-store-repartition",
        f"{app}-counts-changelog",
        f"{app}-windows-changelog",
    )

    assert sorted(topics.ensure(specs)) == [repartition, counts, windows]
    assert topics.ensure(specs) == []

    names = [spec.name for spec in specs]
    assert topics.describe(names) == dict.fromkeys(names, 3)
    configs = topics.configs(names)
    assert configs[repartition]["cleanup.policy"] == "delete"
    assert configs[repartition]["retention.ms"] == "-1"
    assert configs[repartition]["segment.bytes"] == "52428800"
    assert configs[counts]["cleanup.policy"] == "compact"
    assert configs[windows]["cleanup.policy"] == "compact,delete"
    assert configs[windows]["retention.ms"] == str(DAY_MS + topology.stores["windows"].retention_ms)
    assert all(is_internal(name, app) and not is_internal(name, app[:-1]) for name in names)

    topics.delete(names)
    assert topics.describe(names) == {}


def test_internal_topics_that_do_not_fit_are_refused_and_nothing_is_changed(topics: Topics, own: str) -> None:
    a, b, c, new = (f"{own}-{name}-changelog" for name in ("a", "b", "c", "new"))
    topics.create([TopicSpec(a, 2, {"cleanup.policy": "delete"})])
    topics.create([TopicSpec(b, 2, {"cleanup.policy": "compact,delete", "retention.ms": "5"})])
    topics.create([TopicSpec(c, 2, {"cleanup.policy": "compact"})])
    with pytest.raises(TopologyError) as caught:
        topics.ensure(
            [
                TopicSpec(a, 3, {"cleanup.policy": "compact"}),
                TopicSpec(b, 2, {"cleanup.policy": "compact,delete", "retention.ms": "60"}),
                TopicSpec(c, 2, {"cleanup.policy": "compact", "min.compaction.lag.ms": "9"}),
                TopicSpec(new, 2, {"cleanup.policy": "compact"}),
            ]
        )
    message = str(caught.value)
    assert f"{a} has 2 partitions and needs 3" in message
    assert f"{a} has cleanup.policy=delete and needs compact" in message
    assert f"{b} has retention.ms=5 and needs 60 or more" in message
    assert f"{c} has min.compaction.lag.ms=0 and needs 9 or more" in message
    assert "headrace reset" in message
    assert new not in topics.describe()


def test_the_lag_is_what_the_group_has_not_read_yet(topics: Topics, embedded_kafka: EmbeddedKafka, own: str) -> None:
    servers = embedded_kafka.bootstrap_servers
    topic, group = f"{own}-lagging", f"{own}-laggard"
    topics.create([TopicSpec(topic, 2)])
    produce(servers, topic, ["a", "b", "c"], partition=1)
    settings = ClientSettings(servers).consumer(group_id=group, enable_auto_commit=False)
    consumer = Consumer(settings)
    topics.lag(group, [topic])  # answers once groups can commit
    consumer.commit(offsets=[TopicPartition(topic, 1, 1)], asynchronous=False)
    consumer.close()

    untouched, behind = topics.lag(group, [topic, f"{own}-no-such-topic"])
    assert (untouched.partition, untouched.committed, untouched.lag) == (0, None, 0)
    assert (behind.partition, behind.committed, behind.end, behind.lag) == (1, 1, 3, 2)
    assert sum(each.lag for each in topics.lag(f"{own}-nobody", [topic])) == 3
    assert consume(servers, topic, 3, partition=1) == ["a", "b", "c"]

    topics.delete_group(group)
    topics.delete_group(f"{own}-never-there")
    assert [each.committed for each in topics.lag(group, [topic])] == [None, None]


def test_the_lag_does_not_wait_for_a_transaction_that_is_open(
    topics: Topics, embedded_kafka: EmbeddedKafka, own: str
) -> None:
    servers = embedded_kafka.bootstrap_servers
    topic, group = f"{own}-dying", f"{own}-dead"
    topics.create([TopicSpec(topic, 1)])
    produce(servers, topic, ["a", "b", "c"])
    consumer = Consumer(ClientSettings(servers).consumer(group_id=group, enable_auto_commit=False))
    producer = Producer(ClientSettings(servers).producer(transactional_id=group))
    producer.init_transactions(60)
    for offset in (1, 2):
        producer.begin_transaction()
        positions = [TopicPartition(topic, 0, offset)]
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 60)
        if offset == 1:
            producer.commit_transaction(60)
    (behind,) = topics.lag(group, [topic])
    assert (behind.committed, behind.lag) == (1, 2)
    producer.abort_transaction(60)
    consumer.close()


def test_a_group_in_use_is_not_deleted(topics: Topics, embedded_kafka: EmbeddedKafka, own: str) -> None:
    topic, group = f"{own}-busy", f"{own}-busy-group"
    topics.create([TopicSpec(topic, 1)])
    consumer = Consumer(ClientSettings(embedded_kafka.bootstrap_servers).consumer(group_id=group))
    assigned: list[TopicPartition] = []
    consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
    while not assigned:
        consumer.poll(0.1)
    with pytest.raises(EnvironmentFailed, match=f"{group} is in use: stop the application"):
        topics.delete_group(group)
    consumer.close()


def test_topics_that_exist_are_an_error_unless_that_is_fine(topics: Topics, own: str) -> None:
    twice = f"{own}-twice"
    assert topics.create([TopicSpec(twice, 1)]) == [twice]
    assert topics.create([TopicSpec(twice, 1)], exist_ok=True) == []
    with pytest.raises(EnvironmentFailed, match=rf"did not make the topics: {twice}: .*already exists"):
        topics.create([TopicSpec(twice, 1)])


def test_a_kafka_that_is_not_there_is_a_clear_error() -> None:
    with pytest.raises(EnvironmentFailed, match=r"Kafka at 127.0.0.1:1 did not answer .*bootstrap_servers"):
        Topics(ClientSettings("127.0.0.1:1"), timeout=0.3).describe()


def test_a_setting_that_librdkafka_does_not_know_is_named() -> None:
    with pytest.raises(ConfigError, match=r'No such configuration property: "receive.buffer.bytes"$'):
        Topics(ClientSettings("127.0.0.1:1", {"receive.buffer.bytes": 5}))


def test_a_new_client_finds_ends_at_once(embedded_kafka: EmbeddedKafka, topics: Topics, own: str) -> None:
    topics.create([TopicSpec(own, 1)])
    for _ in range(30):
        asking = Topics(ClientSettings(embedded_kafka.bootstrap_servers))
        began = time.monotonic()
        assert asking.ends([(own, 0)]) == {(own, 0): 0}
        assert time.monotonic() - began < 0.9, "librdkafka has looked for the leader again, a second later"
