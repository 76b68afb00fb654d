"""Topics on a real broker."""

from __future__ import annotations

from datetime import timedelta

import pytest
from confluent_kafka import Consumer, TopicPartition

import headrace as hr
from headrace.errors import ConfigError, EnvironmentFailed, TopologyError, UnknownTopicError
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.partitions import plan_partitions, source_topics
from headrace.kafka.topics import Topics, TopicSpec, changelog_topics, is_internal, repartition_topics
from tests.integration.kafka.records import consume, produce

DAY_MS = 86_400_000


def windowed_counts() -> hr.Topology:
    strings = hr.Serdes.string()
    builder = hr.StreamsBuilder()
    orders = builder.stream("orders", hr.Consumed(strings, strings))
    by_store = orders.group_by(lambda k, v: v, hr.Grouped(strings, strings, name="by-store"))
    by_store.count(materialized="counts")
    windows = hr.TimeWindows(timedelta(minutes=1))
    by_store.windowed_by(windows).count(materialized="windows")
    return builder.build()


def test_missing_topics_are_all_named_with_the_command_that_makes_them(topics: Topics) -> None:
    topics.create([TopicSpec("there", 1)])
    with pytest.raises(UnknownTopicError) as caught:
        topics.require(["missing-1", "there", "missing-2"])
    message = str(caught.value)
    assert "has no topic missing-1, missing-2, which the topology reads" in message
    assert "headrace run … --create-topics" in message
    assert "--create --topic missing-2 --partitions" in message


def test_internal_topics_have_kafka_streams_names_partitions_and_settings(topics: Topics) -> None:
    topics.create([TopicSpec("orders", 3)])
    topology = windowed_counts()
    plan = plan_partitions(topology, topics.require(source_topics(topology)))
    specs = repartition_topics("app", plan) + changelog_topics("app", topology, plan)

    assert sorted(topics.ensure(specs)) == ["app-by-store-repartition", "app-counts-changelog", "app-windows-changelog"]
    assert topics.ensure(specs) == []

    names = [spec.name for spec in specs]
    assert topics.describe(names) == dict.fromkeys(names, 3)
    configs = topics.configs(names)
    assert configs["app-by-store-repartition"]["cleanup.policy"] == "delete"
    assert configs["app-by-store-repartition"]["retention.ms"] == "-1"
    assert configs["app-by-store-repartition"]["segment.bytes"] == "52428800"
    assert configs["app-counts-changelog"]["cleanup.policy"] == "compact"
    assert configs["app-windows-changelog"]["cleanup.policy"] == "compact,delete"
    assert configs["app-windows-changelog"]["retention.ms"] == str(DAY_MS + topology.stores["windows"].retention_ms)
    assert all(is_internal(name, "app") and not is_internal(name, "ap") for name in names)

    topics.delete(names)
    assert topics.describe(names) == {}


def test_internal_topics_that_do_not_fit_are_refused_and_nothing_is_changed(topics: Topics) -> None:
    topics.create([TopicSpec("misfit-a-changelog", 2, {"cleanup.policy": "delete"})])
    topics.create([TopicSpec("misfit-b-changelog", 2, {"cleanup.policy": "compact,delete", "retention.ms": "5"})])
    topics.create([TopicSpec("misfit-c-changelog", 2, {"cleanup.policy": "compact"})])
    with pytest.raises(TopologyError) as caught:
        topics.ensure(
            [
                TopicSpec("misfit-a-changelog", 3, {"cleanup.policy": "compact"}),
                TopicSpec("misfit-b-changelog", 2, {"cleanup.policy": "compact,delete", "retention.ms": "60"}),
                TopicSpec("misfit-c-changelog", 2, {"cleanup.policy": "compact", "min.compaction.lag.ms": "9"}),
                TopicSpec("misfit-new-changelog", 2, {"cleanup.policy": "compact"}),
            ]
        )
    message = str(caught.value)
    assert "misfit-a-changelog has 2 partitions and needs 3" in message
    assert "misfit-a-changelog has cleanup.policy=delete and needs compact" in message
    assert "misfit-b-changelog has retention.ms=5 and needs 60 or more" in message
    assert "misfit-c-changelog has min.compaction.lag.ms=0 and needs 9 or more" in message
    assert "headrace reset" in message
    assert "misfit-new-changelog" not in topics.describe()


def test_the_lag_is_what_the_group_has_not_read_yet(topics: Topics, embedded_kafka: EmbeddedKafka) -> None:
    servers = embedded_kafka.bootstrap_servers
    topics.create([TopicSpec("lagging", 2)])
    produce(servers, "lagging", ["a", "b", "c"], partition=1)
    settings = ClientSettings(servers).consumer(group_id="laggard", enable_auto_commit=False)
    consumer = Consumer(settings)
    topics.lag("laggard", ["lagging"])  # answers once groups can commit
    consumer.commit(offsets=[TopicPartition("lagging", 1, 1)], asynchronous=False)
    consumer.close()

    untouched, behind = topics.lag("laggard", ["lagging", "no-such-topic"])
    assert (untouched.partition, untouched.committed, untouched.lag) == (0, None, 0)
    assert (behind.partition, behind.committed, behind.end, behind.lag) == (1, 1, 3, 2)
    assert sum(each.lag for each in topics.lag("nobody", ["lagging"])) == 3
    assert consume(servers, "lagging", 3, partition=1) == ["a", "b", "c"]

    topics.delete_group("laggard")
    topics.delete_group("never-there")
    assert [each.committed for each in topics.lag("laggard", ["lagging"])] == [None, None]


def test_a_group_in_use_is_not_deleted(topics: Topics, embedded_kafka: EmbeddedKafka) -> None:
    topics.create([TopicSpec("busy", 1)])
    consumer = Consumer(ClientSettings(embedded_kafka.bootstrap_servers).consumer(group_id="busy-group"))
    assigned: list[TopicPartition] = []
    consumer.subscribe(["busy"], on_assign=lambda _, partitions: assigned.extend(partitions))
    while not assigned:
        consumer.poll(0.1)
    with pytest.raises(EnvironmentFailed, match="busy-group is in use: stop the application"):
        topics.delete_group("busy-group")
    consumer.close()


def test_topics_that_exist_are_an_error_unless_that_is_fine(topics: Topics) -> None:
    assert topics.create([TopicSpec("twice", 1)]) == ["twice"]
    assert topics.create([TopicSpec("twice", 1)], exist_ok=True) == []
    with pytest.raises(EnvironmentFailed, match=r"did not make the topics: twice: .*already exists"):
        topics.create([TopicSpec("twice", 1)])


def test_a_kafka_that_is_not_there_is_a_clear_error() -> None:
    with pytest.raises(EnvironmentFailed, match=r"Kafka at 127.0.0.1:1 did not answer .*bootstrap_servers"):
        Topics(ClientSettings("127.0.0.1:1"), timeout=0.3).describe()


def test_a_setting_that_librdkafka_does_not_know_is_named() -> None:
    with pytest.raises(ConfigError, match=r'No such configuration property: "receive.buffer.bytes".*java\.'):
        Topics(ClientSettings("127.0.0.1:1", {"receive.buffer.bytes": 5}))
