"""Runs a scenario on Spark and real Kafka, in batches of a given size."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from headrace import Streams, StreamsBuilder, Topology
from headrace.kafka.clients import ClientSettings
from headrace.kafka.partitions import source_topics
from headrace.kafka.topics import Topics, TopicSpec
from headrace.topology.nodes import SinkNode, SourceNode
from tests.oracle.headrace_side import _config
from tests.oracle.scenario import Pipe, Scenario

Written = tuple[bytes | None, bytes | None, int | None, tuple[Any, ...]]


def run_on_spark(scenario: Scenario, servers: str, state_dir: Path, batch_size: int) -> dict[str, list[Written]]:
    """What the scenario writes to each of its topics, caching off, internal topics aside."""
    application_id = f"app-{uuid.uuid4().hex[:8]}"
    topology = prefixed(build(scenario), f"{application_id}.")
    config = replace(
        _config(scenario.config, 0),
        application_id=application_id,
        bootstrap_servers=servers,
        state_dir=str(state_dir),
    )
    settings = ClientSettings.of(config)
    sinks = (node.topic for node in topology.nodes.values() if isinstance(node, SinkNode))
    outputs = {topic for topic in sinks if isinstance(topic, str)} - set(topology.internal_topics)
    names = {*source_topics(topology), *outputs}
    Topics(settings).create([TopicSpec(name, 1) for name in sorted(names)])
    producer = Producer(settings.producer())
    with Streams(topology, config) as application:
        for events in _batches(scenario.inputs, batch_size):
            for event in events:
                assert isinstance(event, Pipe)
                producer.produce(
                    f"{application_id}.{event.topic}",
                    event.value,
                    event.key,
                    timestamp=event.timestamp,
                    headers=list(event.headers),
                )
            producer.flush()
            application.process_all_available()
    prefix = f"{application_id}."
    return {name.removeprefix(prefix): read_all(settings, name) for name in sorted(outputs)}


def build(scenario: Scenario) -> Topology:
    """The scenario's topology."""
    builder = StreamsBuilder()
    scenario.topology(builder)
    return builder.build()


def prefixed(topology: Topology, prefix: str) -> Topology:
    """The same topology on topics of its own, so that scenarios can share a broker."""
    internal = topology.internal_topics
    for name, node in list(topology._nodes.items()):
        if isinstance(node, SourceNode):
            topics = tuple(topic if topic in internal else prefix + topic for topic in node.topics)
            topology._nodes[name] = replace(node, topics=topics)
        elif isinstance(node, SinkNode) and isinstance(node.topic, str) and node.topic not in internal:
            topology._nodes[name] = replace(node, topic=prefix + node.topic)
    return topology


def read_all(settings: ClientSettings, topic: str) -> list[Written]:
    """Every committed record of a topic of one partition."""
    group = f"reader-{uuid.uuid4().hex}"
    consumer = Consumer(
        settings.consumer(**{"group.id": group, "isolation.level": "read_committed", "enable.partition.eof": True})
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    written: list[Written] = []
    while True:
        message = consumer.poll(10)
        assert message is not None, f"{topic} does not end"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            consumer.close()
            return written
        headers = tuple(message.headers() or ())
        written.append((message.key(), message.value(), message.timestamp()[1], headers))


def _batches(events: Iterable[Any], size: int) -> Iterable[list[Any]]:
    events = list(events)
    return (events[start : start + size] for start in range(0, len(events), size))
