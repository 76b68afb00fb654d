"""Commits a batch to Kafka: its results, the batch's number and the source offsets, all in one transaction."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from headrace.errors import EnvironmentFailed, FencedError, KafkaAway, ProductionFailed
from headrace.kafka.absence import is_away
from headrace.kafka.clients import ClientSettings
from headrace.kafka.internal_topics import commits_topic
from headrace.kafka.topics import Topics
from headrace.spark.results import Outputs, Refused, produce_all

logger = logging.getLogger(__name__)
librdkafka = logging.getLogger("headrace.librdkafka")


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
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
_UNKNOWN_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_NO_REASON = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL)
"""Why records are refused that something else has gone wrong with before: the reason is that of the transaction."""
_SILENCE_SECONDS = 15.0
"""How long Kafka may be silent until it counts as away."""
_START_SECONDS = 45.0
"""How long a broker that has just started may take until it knows of transactions and groups."""
_ABORT_SECONDS = 5.0
_MARGIN_SECONDS = 5.0
_STEP_SECONDS = 1.0
_TRANSACTION_MS = 60_000
_PRODUCER = {
    "partitioner": "murmur2_random",
    "delivery.report.only.error": True,
    "linger.ms": 5,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1_000_000,
}


_abandoned: list[Producer] = []
"""Producers that are stuck in a call: to let go of them would be to wait for them."""


def last_commit(settings: ClientSettings, application_id: str) -> Committed:
    """The last batch that any process has committed. Who asks disturbs no other; open transactions are passed over."""
    ours = {"group.id": application_id, "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
    consumer = Consumer({"log_level": 0, **settings.consumer(**ours)})
    try:
        return _read_marker(consumer, application_id) or NEVER
    finally:
        consumer.close()


def taken_over(application_id: str) -> FencedError:
    """The error of a process that finds another one in its place."""
    return FencedError(
        f"Another process runs the application {application_id} and has taken over; this one stops. "
        "Nothing is lost: the other one goes on after the last batch that was committed."
    )


class TransactionalCommitter:
    """One transactional producer for an application: a second one with the same id fences the first.

    After an error it is of no more use: what became of the transaction is known to a new one.
    """

    def __init__(self, settings: ClientSettings, application_id: str, timeout: float = _SILENCE_SECONDS) -> None:
        self._settings = settings
        self._application_id = application_id
        self._timeout = timeout
        self._began = 0.0
        self._fatal: KafkaError | None = None
        """What has made the producer useless."""
        self._producer_settings = settings.producer(**self._kind(), **_PRODUCER)
        self._producer = self._new_producer()
        ours = {"group.id": application_id, "enable.auto.commit": False}
        self._consumer = Consumer({"log_level": 0, **settings.consumer(**ours)})
        self._topics: Topics | None = None
        self._last = NEVER

    def committed(self) -> Committed:
        """The last batch that was committed."""
        try:
            self._last = _read_marker(self._consumer, self._application_id) or self._last
        except KafkaException as error:
            raise self._reason(error, []) from error
        return self._last

    def commit(self, outputs: Outputs, batch: Committed, offsets: Mapping[tuple[str, int], int]) -> None:
        """Writes everything and commits it, or nothing of it."""
        producer = self._producer
        refused: list[Refused] = []
        self._began = time.monotonic()
        try:
            producer.begin_transaction()
            refused = produce_all(producer, outputs)
            group = self._consumer.consumer_group_metadata()
            positions = self._positions(batch, offsets)
            self._bounded(lambda: producer.send_offsets_to_transaction(positions, group, self._timeout))
            self._deliver(refused)
            self._bounded(lambda: producer.commit_transaction(self._timeout))
        except KafkaException as error:
            with contextlib.suppress(KafkaException):
                producer.poll(0)  # tells of what was refused
            reason = self._reason(error, refused)
            self._abort(reason)
            raise reason from error
        self._last = batch

    def await_visible(self, partitions: Mapping[str, int]) -> None:
        """Waits until readers of these topics see what was committed: Kafka commits a moment before it shows it."""
        if self._topics is None:
            self._topics = Topics(self._settings, self._timeout)
        self._topics.await_committed(partitions, self._timeout)

    def close(self) -> None:
        """Lets go of the connections."""
        self._consumer.close()

    def _kind(self) -> dict[str, Any]:
        """The settings that make the producer what it is."""
        return {"transactional.id": self._application_id}

    def _plain_producer(self) -> Producer:
        # Left to itself, confluent-kafka raises a fatal error in the middle of telling what became of the records.
        return Producer({**self._producer_settings, "error_cb": self._notice}, logger=librdkafka)

    def _notice(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error

    def _new_producer(self) -> Producer:
        producer = self._plain_producer()
        try:
            producer.init_transactions(_START_SECONDS)
        except KafkaException as error:
            raise self._reason(error, []) from error
        return producer

    def _positions(self, batch: Committed, offsets: Mapping[tuple[str, int], int]) -> list[TopicPartition]:
        """What is committed to the application's group: where to read on, and the batch's number."""
        positions = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        metadata = msgspec.json.encode(batch).decode()
        return [*positions, TopicPartition(commits_topic(self._application_id), 0, batch.batch + 1, metadata)]

    def _bounded(self, call: Callable[[], None]) -> None:
        """Makes a call that librdkafka may not come back from, time-out or not, if the broker goes away meanwhile."""
        ended: SimpleQueue[Exception | None] = SimpleQueue()

        def make_call() -> None:
            try:
                call()
            except Exception as error:
                ended.put(error)
            else:
                ended.put(None)

        threading.Thread(target=make_call, name="headrace-commit", daemon=True).start()
        # In steps: the time in which this process was stopped must not count, or it takes itself for a silent Kafka.
        for _ in range(math.ceil((self._timeout + _MARGIN_SECONDS) / _STEP_SECONDS)):
            with contextlib.suppress(Empty):
                error = ended.get(timeout=_STEP_SECONDS)
                break
        else:
            _abandoned.append(self._producer)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        if error is not None:
            raise error

    def _deliver(self, refused: list[Refused]) -> None:
        """Waits until every record is delivered, as long as something moves."""
        left, moved = len(self._producer), time.monotonic()
        while not refused and (now_left := self._producer.flush(1.0)):
            if now_left < left:
                left, moved = now_left, time.monotonic()
            elif time.monotonic() - moved > self._timeout:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        if refused:
            raise KafkaException(refused[0].error)

    def _abort(self, reason: Exception) -> None:
        """Ends the transaction, so that readers need not wait for its time-out."""
        if isinstance(reason, (FencedError, KafkaAway)):
            return  # a new producer ends it
        with contextlib.suppress(KafkaException):
            self._producer.abort_transaction(_ABORT_SECONDS)

    # --- what went wrong -----------------------------------------------------------------------------------------

    def _reason(self, error: KafkaException, refused: list[Refused]) -> Exception:
        """The error to raise for one of librdkafka's."""
        first = next((each for each in refused if each.error.code() not in _NO_REASON), None)
        cause: KafkaError = error.args[0] if first is None else first.error
        if self._fatal is not None:
            cause, first = self._fatal, None
        servers = self._settings.bootstrap_servers
        if cause.code() in _FENCED:
            return self._fenced()
        if is_away(cause):
            return KafkaAway(f"Kafka at {servers} does not answer: {cause.str()}")
        if first is None:
            return EnvironmentFailed(f"Kafka at {servers} refused the results of a batch: {cause.str()}")
        if cause.code() in _TOO_LARGE:
            return ProductionFailed(self._too_large(first))
        if cause.code() in _UNKNOWN_TOPIC:
            return ProductionFailed(
                f"Kafka at {servers} has no topic {first.topic}, which the topology writes to: {cause.str()}. "
                "Make it, and start again."
            )
        return ProductionFailed(f"Kafka at {servers} refused a record for topic {first.topic}: {cause.str()}")

    def _fenced(self) -> Exception:
        """A producer is fenced by a second one, and also when its transaction took too long."""
        limit = self._producer_settings.get("transaction.timeout.ms", _TRANSACTION_MS) / 1000
        if time.monotonic() - self._began > limit:
            last = self._last
            if self.committed() == last:
                return KafkaAway(f"Kafka has given up a transaction that took longer than {limit:.0f} seconds")
        return taken_over(self._application_id)

    def _too_large(self, refused: Refused) -> str:
        client = self._settings.largest_record
        text = (
            f"A record of {refused.size:,} bytes for topic {refused.topic} is too large. "
            f"The producer sends at most {client:,} bytes (kafka setting max.request.size)"
        )
        with contextlib.suppress(EnvironmentFailed):
            topic = Topics(self._settings, self._timeout).configs([refused.topic])[refused.topic]
            text += f", the topic takes at most {int(topic['max.message.bytes']):,} (its setting max.message.bytes)"
        return f"{text}. Raise what is too low, or send less."


class PlainCommitter(TransactionalCommitter):
    """At least once: results first, then the batch's number and the offsets."""

    def commit(self, outputs: Outputs, batch: Committed, offsets: Mapping[tuple[str, int], int]) -> None:
        refused: list[Refused] = []
        try:
            refused = produce_all(self._producer, outputs)
            self._deliver(refused)
            self._consumer.commit(offsets=self._positions(batch, offsets), asynchronous=False)
        except KafkaException as error:
            raise self._reason(error, refused) from error
        self._last = batch

    def await_visible(self, partitions: Mapping[str, int]) -> None:
        """What is written without a transaction is there at once."""

    def _kind(self) -> dict[str, Any]:
        return {"enable.idempotence": True}

    def _new_producer(self) -> Producer:
        return self._plain_producer()


def _read_marker(consumer: Consumer, application_id: str) -> Committed | None:
    """The last batch that was committed; a broker that has just started may need a moment to find the group."""
    marker = TopicPartition(commits_topic(application_id), 0)
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            found = consumer.committed([marker], timeout=_START_SECONDS)[0]
        except KafkaException as error:
            if error.args[0].code() not in _COORDINATOR_MOVES or time.monotonic() > deadline:
                raise
            time.sleep(_COORDINATOR_PAUSE)
        else:
            known = found.offset >= 0 and found.metadata
            return msgspec.json.decode(found.metadata, type=Committed) if known else None
