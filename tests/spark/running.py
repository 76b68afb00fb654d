"""Runs scenarios on Spark with a real Kafka: many in one application, in batches that are cut on purpose."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from headrace import Streams, StreamsBuilder, StreamsConfig, Topology
from headrace.kafka.clients import ClientSettings
from headrace.kafka.internal_topics import plan_topics
from headrace.kafka.partitions import source_topics
from headrace.kafka.topics import Topics, TopicSpec, changelog_configs, changelog_topics
from headrace.record import Headers
from headrace.testing import TopologyTestDriver
from headrace.topology.nodes import SinkNode, SourceNode
from tests.oracle.headrace_side import by_topic, config_of, happen
from tests.oracle.outcome import Written
from tests.oracle.scenario import Pipe, Scenario
from tests.spark.together import put_together

HOUR_MS = 3_600_000
NOW = int(time.time() * 1000) // HOUR_MS * HOUR_MS
"""The hour in which the scenarios happen: Kafka deletes old records from the changelogs of windows."""
_WHATEVER_AGE = {"min.compaction.lag.ms": str(2**63 - 1)}
"""Keeps every record of a changelog. Where a timestamp extractor dates records back to 1970, the marker at the end of
their transaction begins a new segment, and what lies before it is compacted within seconds."""
WALL_CLOCK = 123_456_789
"""The driver's wall clock: what has this time has another one on Spark."""
_TOPIC = "__streams.errors.topic"
_OFFSET = "__streams.errors.offset"
_TASK_ID = "__streams.errors.task.id"

Results = dict[str, list[Written]]
"""What a scenario wrote, by topic: its own topics, changelogs, and the dead letters of its records."""


# --- scenarios ---------------------------------------------------------------------------------------------------


def build(scenario: Scenario) -> Topology:
    """The scenario's topology."""
    if scenario.is_low_level:
        topology = Topology()
        scenario.topology(topology)
        return topology.freeze()
    builder = StreamsBuilder()
    scenario.topology(builder)
    return builder.build()


def lives_in_copies(topology: Topology) -> bool:
    """Whether it has a store without a changelog, which is lost with its working copy."""
    return any(not store.logging and not store.is_global for store in topology.stores.values())


def this_hour(scenario: Scenario) -> Scenario:
    """The scenario with all its times moved, so that the last one is in this hour."""
    pipes = [event for event in scenario.inputs if isinstance(event, Pipe)]
    assert len(pipes) == len(scenario.inputs), f"{scenario} moves the wall clock"
    base = NOW - max(event.timestamp for event in pipes) // HOUR_MS * HOUR_MS
    return replace(scenario, inputs=tuple(replace(event, timestamp=event.timestamp + base) for event in pipes))


def batches_of(scenario: Scenario, topology: Topology, size: int) -> list[list[Pipe]]:
    """The inputs in batches of at most `size`, each one in the order in which tasks take its records.

    A task takes the earliest of the records that wait at its topics, and global tables before all others: a batch
    ends where that would not be the order of the inputs.
    """
    nodes = (topology.nodes[name] for name in topology.global_nodes)
    everywhere = {topic for node in nodes if isinstance(node, SourceNode) for topic in node.topics}
    one_order = _merges_internal_topics(topology)
    batches: list[list[Pipe]] = [[]]
    for event in scenario.inputs:
        assert isinstance(event, Pipe)
        others = [one for one in batches[-1] if one.topic != event.topic]
        overtakes = any(event.timestamp <= one.timestamp for one in (batches[-1] if one_order else others))
        if len(batches[-1]) == size or overtakes or (others and event.topic in everywhere):
            batches.append([])
        batches[-1].append(event)
    return batches


def _merges_internal_topics(topology: Topology) -> bool:
    """Whether records of one topic can take different ways and meet again."""
    for group in topology.subtopologies():
        nodes = (topology.nodes[name] for name in group.nodes)
        topics = {topic for node in nodes if isinstance(node, SourceNode) for topic in node.topics}
        if len(topics) > 1 and topics & set(topology.internal_topics):
            return True
    return False


@dataclass(frozen=True)
class Guest:
    """A scenario in an application of many: its nodes, stores and topics have a prefix."""

    scenario: Scenario
    topology: Topology
    prefix: str
    application_id: str

    @property
    def topic_prefix(self) -> str:
        """What the names of its topics begin with."""
        return f"{self.application_id}.{self.prefix}"

    @property
    def all_topics(self) -> tuple[str, str]:
        """What the names of its topics, and of those that are internal, begin with."""
        return self.topic_prefix, f"{self.application_id}-{self.prefix}"

    def run_on_driver(self, config: StreamsConfig, size: int) -> Results:
        """What it writes on the driver, without the repartition topics; a commit ends each batch."""
        topology = put_together([self])
        with TopologyTestDriver(topology, config, initial_wall_clock=WALL_CLOCK, commit="manual") as driver:
            for batch in self.batches(size):
                for event in batch:
                    happen(driver, replace(event, topic=self.topic_prefix + event.topic))
                driver.commit()
            written = by_topic(driver.produced())
        internal = {f"{config.application_id}-{name}" for name in topology.internal_topics}
        return {topic: list(map(_as_stored, records)) for topic, records in written.items() if topic not in internal}

    def batches(self, size: int) -> list[list[Pipe]]:
        """Its inputs in batches."""
        return batches_of(self.scenario, self.topology, size)

    def topics(self, driver_results: Results) -> set[str]:
        """The topics it reads and writes, without internal ones."""
        nodes = self.topology.nodes.values()
        sinks = {node.topic for node in nodes if isinstance(node, SinkNode) and isinstance(node.topic, str)}
        piped = {event.topic for event in self.scenario.inputs if isinstance(event, Pipe)}
        named = {*source_topics(self.topology), *sinks, *piped} - set(self.topology.internal_topics)
        chosen = {topic for topic in driver_results if topic.startswith(self.topic_prefix)}
        return {self.topic_prefix + topic for topic in named} | chosen


# --- on Spark ----------------------------------------------------------------------------------------------------


class ScenariosOnSpark:
    """One application of many scenarios with the same configuration, caching off."""

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        servers: str,
        state_dir: Path,
        size: int,
        application_id: str | None = None,
    ) -> None:
        self.application_id = application_id or f"app-{uuid.uuid4().hex[:8]}"
        self._size = size
        """How many records of a scenario a batch has at most."""
        self.config = self._configured(scenarios[0], servers, state_dir)
        self.guests = [
            Guest(one, build(one), f"s{number:02}-", self.application_id) for number, one in enumerate(scenarios)
        ]
        self.topology = put_together(self.guests)
        self._settings = ClientSettings.of(self.config)
        # Records go to the partitions that Java's clients would choose.
        self._producer = Producer(self._settings.producer(enable_idempotence=True, partitioner="murmur2_random"))

    @cached_property
    def expected(self) -> dict[str, Results]:
        """By scenario, what the driver writes, of what Kafka keeps."""
        return {
            str(guest.scenario): {
                topic: records
                for topic, records in guest.run_on_driver(self.config, self._size).items()
                if not self._may_be_deleted(topic, records)
            }
            for guest in self.guests
        }

    def make_topics(self, partitions: int = 1) -> None:
        """Makes the topics that the scenarios read and write, and changelogs that are not compacted."""
        topics = Topics(self._settings)
        specs = [TopicSpec(name, partitions) for name in sorted(self._topics())]
        if self.config.dead_letter_queue_topic:
            specs.append(TopicSpec(self.config.dead_letter_queue_topic, 1))
        topics.create(specs)
        plan = plan_topics(self.topology, self.config, self._settings)
        changelogs = changelog_topics(self.application_id, self.topology, plan)
        topics.create(replace(one, configs={**one.configs, **_WHATEVER_AGE}) for one in changelogs)

    def run(self) -> dict[str, Results]:
        """Runs all scenarios to their end; by scenario, what it wrote."""
        if self._size == 1:
            with Streams(self.topology, self.config) as application:
                for number in range(self.rounds()):
                    self.pipe(number)
                    application.process_all_available()
        else:
            # All records of a batch are there before the application looks for them. Every other start finds no
            # working copies: what it rebuilds from the changelogs equals what it would have kept.
            loses_copies = not lives_in_copies(self.topology)
            for number in range(self.rounds()):
                self.pipe(number)
                if number % 2 and loses_copies:
                    shutil.rmtree(Path(self.config.state_dir or "") / "copies", ignore_errors=True)
                with Streams(self.topology, self.config) as application:
                    application.process_all_available()
        return self.results()

    def rounds(self) -> int:
        """How many batches the longest scenario has."""
        return max(len(guest.batches(self._size)) for guest in self.guests)

    def pipe(self, number: int) -> None:
        """Writes the batch of that number of each scenario that still has one."""
        for guest in self.guests:
            batches = guest.batches(self._size)
            for event in batches[number] if number < len(batches) else ():
                self._producer.produce(
                    guest.topic_prefix + event.topic,
                    event.value,
                    event.key,
                    timestamp=event.timestamp,
                    headers=list(event.headers),
                )
        assert self._producer.flush(300) == 0

    def results(self) -> dict[str, Results]:
        """What each scenario wrote so far."""
        changelogs = [f"{self.application_id}-{store}-changelog" for store in self.topology.stores]
        dead_letters = self.config.dead_letter_queue_topic
        names = [*self._topics(), *changelogs, *([dead_letters] if dead_letters else [])]
        written = read_topics(self._settings, names)
        results: dict[str, Results] = {}
        for guest in self.guests:
            mine = {topic: records for topic, records in written.items() if topic.startswith(guest.all_topics)}
            found = {topic: list(map(_as_stored, records)) for topic, records in mine.items()}
            if dead_letters:
                found[dead_letters] = [_as_stored(one) for one in written[dead_letters] if _is_letter_of(guest, one)]
            _remove_inputs(guest, found)
            expected = self.expected[str(guest.scenario)]
            results[str(guest.scenario)] = {
                topic: _timed_as(expected.get(topic, []), records)
                for topic, records in found.items()
                if records and not self._may_be_deleted(topic, records)
            }
        return results

    def _configured(self, scenario: Scenario, servers: str, state_dir: Path) -> StreamsConfig:
        config = config_of(scenario.config, 0)
        dead_letters = config.dead_letter_queue_topic
        return replace(
            config,
            application_id=self.application_id,
            bootstrap_servers=servers,
            state_dir=str(state_dir),
            dead_letter_queue_topic=dead_letters and f"{self.application_id}.{dead_letters}",
        )

    def _may_be_deleted(self, topic: str, records: Iterable[Written]) -> bool:
        """Whether it is the changelog of windows with records that are too old for Kafka to keep."""
        store = topic.removeprefix(f"{self.application_id}-").removesuffix("-changelog")
        if store not in self.topology.stores:
            return False
        retention = changelog_configs(self.topology.stores[store]).get("retention.ms")
        return retention is not None and any((one.timestamp or NOW) < NOW - int(retention) for one in records)

    def _topics(self) -> set[str]:
        return {topic for guest in self.guests for topic in guest.topics(self.expected[str(guest.scenario)])}


def read_topics(settings: ClientSettings, topics: Iterable[str]) -> dict[str, list[Written]]:
    """Every committed record of each topic that exists, one partition after the other."""
    options = {"group.id": f"reader-{uuid.uuid4().hex}", "isolation.level": "read_committed"}
    consumer = Consumer(settings.consumer(**options, **{"enable.partition.eof": True}))
    counts = Topics(settings).describe(topics)
    places = [(topic, partition) for topic, count in counts.items() for partition in range(count)]
    written: dict[tuple[str, int], list[Written]] = {place: [] for place in places}
    consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in places])
    unread = set(places)
    while unread:
        message = consumer.poll(300)
        assert message is not None, f"{sorted(unread)} do not end"
        place = (str(message.topic()), int(message.partition() or 0))
        error = message.error()
        if error is None:
            headers = tuple(message.headers() or ())
            written[place].append(Written(message.key(), message.value(), message.timestamp()[1], headers))
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            unread.discard(place)
    consumer.close()
    return {topic: [one for p in range(count) for one in written[topic, p]] for topic, count in counts.items()}


def read_all(settings: ClientSettings, topic: str) -> list[tuple[bytes | None, bytes | None, int | None, Headers]]:
    """Every committed record of a topic: key, value, time and headers."""
    records = read_topics(settings, [topic])[topic]
    return [(one.key, one.value, one.timestamp, one.headers) for one in records]


def _as_stored(record: Written) -> Written:
    """The record as it is compared: with its time as Kafka has it, without what tells where it ran."""
    headers = dict(record.comparable().headers)
    hidden = {_TASK_ID}
    if (headers.get(_TOPIC) or b"").endswith(b"-repartition"):
        # What stays inside a batch is in no topic, and has no offset.
        hidden.add(_OFFSET)
    shown = tuple((name, b"*" if name in hidden else value) for name, value in record.comparable().headers)
    # Buffers keep where a record came from, and that has no offset either.
    value = b"*" if b"-repartition" in (record.value or b"") else record.value
    # librdkafka takes a time of 0 for now, so it is written as 1.
    timestamp = None if record.timestamp == WALL_CLOCK else record.timestamp or 1
    return replace(record, value=value, timestamp=timestamp, headers=shown)


def _timed_as(expected: Sequence[Written], records: list[Written]) -> list[Written]:
    """The records without their times, where these are the wall clock's."""
    if all(record.timestamp is not None for record in expected):
        return records
    return [replace(record, timestamp=None) for record in records]


def _is_letter_of(guest: Guest, record: Written) -> bool:
    topic = dict(record.headers)[_TOPIC]
    assert topic is not None
    return topic.decode().startswith(guest.all_topics)


def _remove_inputs(guest: Guest, results: Mapping[str, list[Written]]) -> None:
    """Takes out what was piped: a topic may be both read and written."""
    for event in guest.scenario.inputs:
        assert isinstance(event, Pipe)
        piped = Written(event.key, event.value, event.timestamp, event.headers)
        results[guest.topic_prefix + event.topic].remove(_as_stored(piped))
