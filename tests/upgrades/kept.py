"""What an application has left in Kafka, as files, and back into a Kafka that has never seen it."""

from __future__ import annotations

import base64
import gzip
import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from headrace.kafka.clients import ClientSettings
from headrace.kafka.internal_topics import commits_topic
from headrace.kafka.topics import Topics, TopicSpec
from tests.upgrades.application import Written

PATIENCE = 300.0
_STATE, _RECORDS = "state.json", "records.jsonl.gz"

Place = tuple[str, int]
"""A topic and the number of a partition."""


@dataclass(frozen=True)
class Kept:
    """The topics of an application with their records and settings, and the offsets of its group."""

    application_id: str
    partitions: dict[str, int]
    configs: dict[str, dict[str, str]]
    """Of the topics' own settings, those that are not the broker's."""
    offsets: dict[Place, int]
    """The group's: where the application goes on in the topics that it reads."""
    records: list[Written]

    # --- files -------------------------------------------------------------------------------------------------

    def write(self, directory: Path) -> None:
        """Writes the files."""
        directory.mkdir(parents=True, exist_ok=True)
        state = {
            "application_id": self.application_id,
            "partitions": self.partitions,
            "configs": self.configs,
            "offsets": [[*place, offset] for place, offset in sorted(self.offsets.items())],
        }
        (directory / _STATE).write_text(json.dumps(state, indent=1) + "\n")
        lines = "".join(f"{json.dumps(_packed(record))}\n" for record in self.records)
        (directory / _RECORDS).write_bytes(gzip.compress(lines.encode(), mtime=0))

    @classmethod
    def read(cls, directory: Path) -> Kept:
        """What the files have."""
        state = json.loads((directory / _STATE).read_text())
        lines = gzip.decompress((directory / _RECORDS).read_bytes()).splitlines()
        return cls(
            state["application_id"],
            state["partitions"],
            state["configs"],
            {(topic, number): offset for topic, number, offset in state["offsets"]},
            [_unpacked(json.loads(line)) for line in lines],
        )

    # --- from Kafka --------------------------------------------------------------------------------------------

    @classmethod
    def capture(cls, settings: ClientSettings, application_id: str, sources: Iterable[str]) -> Kept:
        """What an application that does not run has in Kafka: its own topics, those that it reads, and its group."""
        topics = Topics(settings)
        names = [name for name in topics.describe() if name.startswith(f"{application_id}-")]
        partitions = topics.describe([*sorted(names), *sources])
        lag = topics.lag(application_id, partitions)
        offsets = {(each.topic, each.partition): each.committed for each in lag if each.committed is not None}
        records = list(_records(settings, partitions))
        return cls(application_id, partitions, _own_configs(settings, partitions), offsets, records)

    # --- to Kafka ----------------------------------------------------------------------------------------------

    def load(self, settings: ClientSettings) -> None:
        """Makes the topics with their records, and the group.

        Records are at the same offsets wherever the application goes on at an offset. Topics get new ids, which the
        commit records name: they are changed there, as one would do to move an application to another cluster.
        """
        topics = Topics(settings)
        specs = [TopicSpec(name, count, self.configs[name]) for name, count in self.partitions.items()]
        assert sorted(topics.create(specs)) == sorted(self.partitions)
        ids = topics.ids(self.partitions)
        records = [_with_ids(one, ids) if one.topic == self._commits else one for one in self.records]
        written_by_batches = {name for name in self.partitions if name.startswith(f"{self.application_id}-")}
        _produce(settings, [one for one in records if one.topic not in written_by_batches])
        _produce_in_transactions(settings, [one for one in records if one.topic in written_by_batches])
        ends = topics.ends(self.offsets)
        assert ends == self.offsets, "records are at other offsets than they were"
        self._commit_offsets(settings)

    @property
    def _commits(self) -> str:
        return commits_topic(self.application_id)

    def _commit_offsets(self, settings: ClientSettings) -> None:
        consumer = Consumer(settings.consumer(**{"group.id": self.application_id, "enable.auto.commit": False}))
        positions = [TopicPartition(*place, offset) for place, offset in self.offsets.items()]
        # Unlike a consumer, a producer waits for the coordinator of a group that is new to Kafka.
        producer = _transactional_producer(settings)
        producer.begin_transaction()
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), PATIENCE)
        producer.commit_transaction(PATIENCE)
        consumer.close()


def produce(settings: ClientSettings, records: Iterable[Written]) -> None:
    """Writes records to their partitions."""
    _produce(settings, records)


def read_committed(settings: ClientSettings, topics: Iterable[str]) -> list[Written]:
    """The committed records of topics, those of each partition in their order."""
    return list(_records(settings, Topics(settings).describe(topics)))


def _records(settings: ClientSettings, partitions: dict[str, int]) -> Iterator[Written]:
    options = {"group.id": f"reader-{uuid.uuid4().hex}", "isolation.level": "read_committed"}
    consumer = Consumer(settings.consumer(**options, **{"enable.partition.eof": True, "enable.auto.commit": False}))
    places = [(topic, number) for topic, count in partitions.items() for number in range(count)]
    consumer.assign([TopicPartition(*place, 0) for place in places])
    found: dict[Place, list[Written]] = {place: [] for place in places}
    unread = set(places)
    while unread:
        message = consumer.poll(PATIENCE)
        assert message is not None, f"{sorted(unread)} do not end"
        place, error = (str(message.topic()), int(message.partition())), message.error()
        if error is None:
            headers, timestamp = tuple(message.headers() or ()), message.timestamp()[1]
            found[place].append(Written(*place, message.key(), message.value(), timestamp, headers, message.offset()))
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            unread.discard(place)
    consumer.close()
    for place in places:
        yield from found[place]


def _own_configs(settings: ClientSettings, names: Iterable[str]) -> dict[str, dict[str, str]]:
    admin = AdminClient(settings.admin())
    asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {
        resource.name: {name: entry.value for name, entry in sorted(future.result().items()) if entry.source == own}
        for resource, future in asked.items()
    }


def _produce(settings: ClientSettings, records: Iterable[Written], producer: Producer | None = None) -> None:
    refused: list[Any] = []
    producer = producer or Producer(settings.producer(enable_idempotence=True))
    for one in records:
        producer.produce(
            one.topic,
            one.value,
            one.key,
            one.partition,
            lambda error, _: refused.append(error) if error is not None else None,
            timestamp=one.timestamp,
            headers=list(one.headers),
        )
    assert producer.flush(PATIENCE) == 0
    assert not refused, refused


def _produce_in_transactions(settings: ClientSettings, records: Iterable[Written]) -> None:
    """Writes records so that they come to the same offsets: where one was left out, a transaction ended."""
    producer = _transactional_producer(settings)
    runs: dict[Place, list[list[Written]]] = {}
    for one in records:
        known = runs.setdefault((one.topic, one.partition), [])
        if not known or known[-1][-1].offset + 1 < one.offset:
            known.append([])
        known[-1].append(one)
    for pieces in zip_longest(*runs.values(), fillvalue=()):
        producer.begin_transaction()
        _produce(settings, (one for piece in pieces for one in piece), producer)
        producer.commit_transaction(PATIENCE)


def _transactional_producer(settings: ClientSettings) -> Producer:
    producer = Producer(settings.producer(**{"transactional.id": f"loader-{uuid.uuid4().hex}"}))
    producer.init_transactions(PATIENCE)
    return producer


def _with_ids(record: Written, ids: dict[str, str]) -> Written:
    """A commit record that names topics by these ids. It is read as what it is, JSON, and not by the code at test."""
    assert record.value is not None
    content = json.loads(record.value)
    for known in (content["topic_ids"], content["changelog_ids"]):
        known.update((name, ids[name]) for name in known)
    return Written(
        record.topic,
        record.partition,
        record.key,
        json.dumps(content).encode(),
        record.timestamp,
        record.headers,
        record.offset,
    )


def _packed(record: Written) -> list[Any]:
    headers = [[name, _text(value)] for name, value in record.headers]
    place = [record.topic, record.partition, record.offset, record.timestamp]
    return [*place, _text(record.key), _text(record.value), headers]


def _unpacked(line: list[Any]) -> Written:
    topic, partition, offset, timestamp, key, value, headers = line
    named = tuple((name, _bytes(content)) for name, content in headers)
    return Written(topic, partition, _bytes(key), _bytes(value), timestamp, named, offset)


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
