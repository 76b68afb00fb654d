"""Workers read ranges of offsets: every record of the range, whatever else takes offsets in it, and no other."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from itertools import chain

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.errors import EnvironmentFailed
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec
from headrace.spark.ranges import Range
from headrace.spark.reader import KafkaReader


@pytest.fixture
def settings(embedded_kafka: EmbeddedKafka) -> ClientSettings:
    return ClientSettings(embedded_kafka.bootstrap_servers)


@pytest.fixture
def topic(settings: ClientSettings) -> str:
    name = f"read-{uuid.uuid4().hex[:8]}"
    Topics(settings).create([TopicSpec(name, 2, {"retention.ms": "-1"})])
    return name


@pytest.fixture
def reader(settings: ClientSettings) -> Iterator[KafkaReader]:
    reader = KafkaReader(settings, "readers")
    yield reader
    reader.close()


def send(settings: ClientSettings, topic: str, *values: str, partition: int = 0, commit: bool | None = None) -> None:
    """Writes values; in a transaction that is committed or not, if `commit` says which."""
    transaction = {} if commit is None else {"transactional.id": uuid.uuid4().hex}
    producer = Producer({**settings.producer(enable_idempotence=True), **transaction})
    if commit is not None:
        producer.init_transactions(30)
        producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, "k", partition, timestamp=5)
    producer.flush()
    if commit is not None:
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)


def values(reader: KafkaReader, topic: str, start: int, end: int, partition: int = 0) -> list[str]:
    rows = chain.from_iterable(reader.read(Range(topic, partition, start, end)))
    return [(value or b"").decode() for _, _, _, value, _ in rows]


def test_a_range_is_read_and_nothing_after_it(settings: ClientSettings, topic: str, reader: KafkaReader) -> None:
    send(settings, topic, *"abcdef")
    assert values(reader, topic, 1, 4) == ["b", "c", "d"]
    assert values(reader, topic, 4, 6) == ["e", "f"]
    assert values(reader, topic, 0, 1) == ["a"]


def test_partitions_take_turns(settings: ClientSettings, topic: str, reader: KafkaReader) -> None:
    send(settings, topic, *"ab")
    send(settings, topic, *"cd", partition=1)
    assert values(reader, topic, 0, 1) == ["a"]
    assert values(reader, topic, 0, 2, partition=1) == ["c", "d"]
    assert values(reader, topic, 1, 2) == ["b"]


def test_marks_and_aborted_records_take_offsets_but_are_not_read(
    settings: ClientSettings, topic: str, reader: KafkaReader
) -> None:
    send(settings, topic, *"ab", commit=True)  # 0, 1, and a mark at 2
    send(settings, topic, *"xy", commit=False)  # 3, 4, and a mark at 5
    send(settings, topic, "c", commit=True)  # 6, and a mark at 7
    send(settings, topic, *"zz", commit=False)  # 8, 9, and a mark at 10
    assert values(reader, topic, 0, 3) == ["a", "b"]
    assert values(reader, topic, 3, 6) == []
    assert values(reader, topic, 2, 7) == ["c"]
    assert values(reader, topic, 7, 11) == []
    assert values(reader, topic, 0, 11) == ["a", "b", "c"]


def test_a_record_has_all_its_parts(settings: ClientSettings, topic: str, reader: KafkaReader) -> None:
    producer = Producer(settings.producer(enable_idempotence=True))
    producer.produce(topic, None, b"k", 0, timestamp=7, headers=[("a", b"1"), ("a", None), ("b", b"")])
    producer.produce(topic, b"", None, 0, timestamp=8)
    producer.produce(topic, b"v", b"", 0, timestamp=9)
    producer.flush()
    assert list(chain.from_iterable(reader.read(Range(topic, 0, 0, 3)))) == [
        (0, 7, b"k", None, (("a", b"1"), ("a", None), ("b", b""))),
        (1, 8, None, b"", ()),
        (2, 9, b"", b"v", ()),
    ]


def test_more_records_than_are_fetched_at_once(settings: ClientSettings, topic: str, reader: KafkaReader) -> None:
    send(settings, topic, *map(str, range(60_000)))
    assert values(reader, topic, 0, 60_000) == list(map(str, range(60_000)))


def test_a_range_may_be_left_in_the_middle(settings: ClientSettings, topic: str, reader: KafkaReader) -> None:
    send(settings, topic, *map(str, range(1_000)))
    pieces = reader.read(Range(topic, 0, 0, 1_000))
    assert next(pieces)[0][3] == b"0"
    del pieces
    assert values(reader, topic, 0, 3) == ["0", "1", "2"]


def test_records_that_kafka_has_deleted_are_an_error_that_says_so(
    settings: ClientSettings, topic: str, reader: KafkaReader
) -> None:
    send(settings, topic, *"abcd")
    delete_before(settings, topic, 2)
    with pytest.raises(
        EnvironmentFailed, match=rf"no longer has all of offsets 1 to 3 of partition 0 of topic {topic}"
    ):
        values(reader, topic, 1, 4)
    assert reader.has_failed


def test_records_that_kafka_has_deleted_can_be_done_without(settings: ClientSettings, topic: str) -> None:
    send(settings, topic, *"abcd")
    delete_before(settings, topic, 2)
    reader = KafkaReader(settings, "readers", skip_lost=True)
    assert values(reader, topic, 1, 4) == ["c", "d"]
    reader.close()


def delete_before(settings: ClientSettings, topic: str, offset: int) -> None:
    admin = AdminClient(settings.admin())
    [deleted] = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    deleted.result(30)
