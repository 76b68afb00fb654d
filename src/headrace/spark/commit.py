"""Commits a batch to Kafka: its results, the batch's number and the source offsets, all in one transaction."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from headrace.errors import StreamsError
from headrace.kafka.clients import ClientSettings
from headrace.record import Headers

COMMITS = "commits"
"""The internal topic whose offset in the application's group is the number of the next batch."""


class Output(NamedTuple):
    """A record to be written."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers


class Committed(msgspec.Struct):
    """The last batch that was committed: its number and what is known of it."""

    batch: int
    token: str = ""
    query: str = ""
    """The checkpoint that the batch belongs to."""


NEVER = Committed(-1)

_COORDINATOR_MOVES = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
_COORDINATOR_PAUSE = 0.2
_PRODUCER = {
    "partitioner": "murmur2_random",
    "linger.ms": 5,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1_000_000,
}


class FencedError(StreamsError):
    """Another process runs the same application now; this one may no longer write."""


class TransactionalCommitter:
    """One transactional producer for an application: a second one with the same id fences the first."""

    def __init__(self, settings: ClientSettings, application_id: str, timeout: float = 60.0) -> None:
        self._settings = settings
        self._application_id = application_id
        self._timeout = timeout
        self._marker = TopicPartition(f"{application_id}-{COMMITS}", 0)
        self._consumer = Consumer(settings.consumer(**{"group.id": application_id, "enable.auto.commit": False}))
        self._producer = self._new_producer()

    def committed(self) -> Committed:
        """The last batch that was committed."""
        found = self._ask_coordinator()
        if found.offset < 0 or not found.metadata:
            return NEVER
        return msgspec.json.decode(found.metadata, type=Committed)

    def commit(self, outputs: Iterable[Output], batch: Committed, offsets: Mapping[tuple[str, int], int]) -> None:
        """Writes everything and commits it, or nothing of it."""
        producer = self._producer
        try:
            producer.begin_transaction()
            errors = produce_all(producer, outputs)
            group = self._consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(self._positions(batch, offsets), group, self._timeout)
            producer.flush(self._timeout)
            if errors:
                raise KafkaException(errors[0])
            producer.commit_transaction(self._timeout)
        except KafkaException as error:
            self._give_up(error)

    def close(self) -> None:
        """Lets go of the connections."""
        self._consumer.close()

    def _positions(self, batch: Committed, offsets: Mapping[tuple[str, int], int]) -> list[TopicPartition]:
        """What is committed to the application's group: where to read on, and the batch's number."""
        positions = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        metadata = msgspec.json.encode(batch).decode()
        return [*positions, TopicPartition(self._marker.topic, 0, batch.batch + 1, metadata)]

    def _ask_coordinator(self) -> TopicPartition:
        """The marker's committed offset; a broker that has just started may need a moment to find the group."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return self._consumer.committed([self._marker], timeout=self._timeout)[0]
            except KafkaException as error:
                if error.args[0].code() not in _COORDINATOR_MOVES or time.monotonic() > deadline:
                    raise
                time.sleep(_COORDINATOR_PAUSE)

    def _give_up(self, error: KafkaException) -> None:
        """Starts over with a new producer, whose higher epoch ends the transaction, and raises."""
        cause = error.args[0]
        if isinstance(cause, KafkaError) and cause.code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
            raise FencedError(
                f"Another process runs the application {self._application_id} and has taken over; this one stops."
            ) from error
        self._producer = self._new_producer()
        raise error

    def _new_producer(self) -> Producer:
        producer = Producer(
            self._settings.producer(
                **{
                    "transactional.id": self._application_id,
                    **_PRODUCER,
                }
            )
        )
        producer.init_transactions(self._timeout)
        return producer


class PlainCommitter(TransactionalCommitter):
    """At least once: results first, then the batch's number and the offsets."""

    def commit(self, outputs: Iterable[Output], batch: Committed, offsets: Mapping[tuple[str, int], int]) -> None:
        errors = produce_all(self._producer, outputs)
        self._producer.flush(self._timeout)
        if errors:
            raise KafkaException(errors[0])
        self._consumer.commit(offsets=self._positions(batch, offsets), asynchronous=False)

    def _new_producer(self) -> Producer:
        return Producer(
            self._settings.producer(
                **{
                    "enable.idempotence": True,
                    **_PRODUCER,
                }
            )
        )


def produce_all(producer: Producer, outputs: Iterable[Output]) -> list[KafkaError]:
    """Hands all records to the producer; what fails is in the list once the producer is flushed."""
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            errors.append(error)

    produce = producer.produce
    for topic, partition, key, value, timestamp, headers in outputs:
        while True:
            try:
                produce(
                    topic,
                    value,
                    key,
                    partition,
                    on_delivery=on_delivery,
                    # librdkafka takes 0 for "now".
                    timestamp=timestamp or 1,
                    headers=list(headers),
                )
                break
            except BufferError:
                producer.poll(0.1)
    return errors
