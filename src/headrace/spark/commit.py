"""Commits a batch to Kafka: its results, the source offsets and the commit record, all in one transaction."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from queue import Empty, SimpleQueue
from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from headrace.errors import EnvironmentFailed, FencedError, HeadraceError, KafkaAway, ProductionFailed
from headrace.kafka.absence import is_away
from headrace.kafka.access import CLUSTER, GROUP, TRANSACTIONAL_ID, Grant, is_refused, on_topics
from headrace.kafka.access import refused as not_allowed
from headrace.kafka.clients import ClientSettings
from headrace.kafka.internal_topics import commits_topic
from headrace.kafka.topics import WRITES, Topics
from headrace.record import NO_HEADERS
from headrace.spark.changelog_ends import MARKER, find_claim
from headrace.spark.commit_record import CLAIM, KEY, CommitRecord, claimed_commit, last_commit, taken_over
from headrace.spark.ranges import Row
from headrace.spark.results import Outputs, Refused, produce_all

logger = logging.getLogger(__name__)
librdkafka = logging.getLogger("headrace.librdkafka")


_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
_FAILED = (KafkaException, SystemError)
"""What the producer's calls raise: a fatal error that comes up among delivery reports makes it a SystemError."""
_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
_UNKNOWN_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_FORGOTTEN = (KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.UNKNOWN_PRODUCER_ID)
"""Kafka has forgotten a producer that did nothing for a week: a new one goes on."""
_NO_REASON = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL, KafkaError._STATE)
"""Why records are refused that something else has gone wrong with before: the reason is that of the transaction."""
_SILENCE_SECONDS = 15.0
"""How long Kafka may be silent until it counts as away."""
_START_SECONDS = 45.0
"""How long a broker that has just started may take until it knows of transactions and groups."""
_ABORT_SECONDS = 5.0
_MARGIN_SECONDS = 5.0
_STEP_SECONDS = 1.0
_PAUSE_SECONDS = 0.1
_REASON_SECONDS = 1.0
_TRANSACTION_MS = 60_000
_PRODUCER = {
    "partitioner": "murmur2_random",
    "delivery.report.only.error": True,
    "linger.ms": 5,
    # Kafka refuses the first requests of a transaction while it still ends the one before: a matter of milliseconds.
    "retry.backoff.ms": 3,
    "retry.backoff.max.ms": 200,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1_000_000,
}


_abandoned: list[Producer] = []
"""Producers that are stuck in a call: to let go of them would be to wait for them."""


class TransactionalCommitter:
    """One transactional producer for an application: a second one with the same id fences the first.

    After an error it is of no more use: what became of the transaction is known to a new one.
    """

    marker: ClassVar = MARKER
    """The offsets that a commit takes in each partition it writes to, beside its records."""

    def __init__(self, settings: ClientSettings, application_id: str, timeout: float = _SILENCE_SECONDS) -> None:
        self._settings = settings
        self._application_id = application_id
        self._timeout = timeout
        self._began = 0.0
        self._producer_settings = settings.producer(**self._kind(), **_PRODUCER)
        self._producer = self._new_producer()
        ours = {"group.id": application_id, "enable.auto.commit": False}
        self._consumer = Consumer({"log_level": 0, **settings.consumer(**ours)})
        self._last: CommitRecord | None = None
        """The last commit that it knows of."""
        self._knows_last = False
        self._claimed_at = _now()
        """When it wrote its claim, by the clock of the broker: Kafka refuses what is far ahead of that."""

    def last(self) -> CommitRecord | None:
        """The last commit, now that no other process can make one any more; None where there is none."""
        if self._replicated([commits_topic(self._application_id)]):
            claim = uuid.uuid4().hex.encode()
            self._write(Outputs(), self._row(CLAIM, claim), {})
            self._last, self._claimed_at = claimed_commit(self._settings, self._application_id, claim)
        else:
            self._last = last_commit(self._settings, self._application_id)
        self._knows_last = True
        return self._last

    def least_ends(self, changelogs: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """How far these partitions go at least, whatever a broker says that was replaced and does not know it yet.

        It writes a claim to each, which is not committed; to none where no other broker could lead them.
        """
        known = list(changelogs)
        replicated = self._replicated({topic for topic, _ in known})
        places = [place for place in known if place[0] in replicated]
        if not places:
            return {}
        claim = uuid.uuid4().hex.encode()
        rows: list[tuple[str, list[Row]]] = [
            (topic, [(number, self._claimed_at, CLAIM, claim, NO_HEADERS)]) for topic, number in places
        ]
        self._write_and_abort(rows)
        return find_claim(self._settings, self._application_id, places, claim, _START_SECONDS)

    def _replicated(self, names: Iterable[str]) -> set[str]:
        """The topics that another broker may come to lead."""
        topics = Topics(self._settings, self._timeout)
        return {name for name in names if topics.is_replicated(name)}

    def commit(
        self,
        outputs: Outputs,
        record: CommitRecord,
        offsets: Mapping[tuple[str, int], int],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Writes everything and commits it, or nothing of it; `offsets` are those that have moved.

        `check` is called at the last moment, and raises where nothing is to be committed.
        """
        self._write(outputs, self._row(KEY, record.pack()), offsets, check)
        self._last = record

    def _write(
        self,
        outputs: Outputs,
        last: Iterable[tuple[str, list[Row]]],
        offsets: Mapping[tuple[str, int], int],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Writes the outputs, the last rows and the offsets in a transaction, or nothing of it."""
        producer = self._producer
        refused: list[Refused] = []
        self._began = time.monotonic()
        try:
            producer.begin_transaction()
            refused = produce_all(producer, chain(outputs, last))
            positions = _positions(offsets)
            if positions:
                group = self._consumer.consumer_group_metadata()
                send = partial(producer.send_offsets_to_transaction, positions, group, self._timeout)
                _bounded(producer, send, self._timeout)
            self._deliver(refused, outputs.topics)
            check()
            _bounded(producer, lambda: producer.commit_transaction(self._timeout), self._timeout)
        except _FAILED as error:
            reason = self._reason_of(error, refused, {topic for topic, _ in offsets})
            self._abort(reason)
            raise reason from error
        except HeadraceError as refusal:
            self._abort(refusal)
            raise

    def _write_and_abort(self, rows: list[tuple[str, list[Row]]]) -> None:
        """Writes rows in a transaction that is aborted: they are in Kafka, and no read_committed reader sees them."""
        producer = self._producer
        refused: list[Refused] = []
        self._began = time.monotonic()
        try:
            producer.begin_transaction()
            refused = produce_all(producer, rows)
            self._deliver(refused, {topic for topic, _ in rows})
            _bounded(producer, lambda: producer.abort_transaction(self._timeout), self._timeout)
        except _FAILED as error:
            raise self._reason_of(error, refused, ()) from error

    def close(self) -> None:
        """Lets go of the connections, and of what was not sent."""
        self._give_up()
        self._consumer.close()

    def _give_up(self) -> None:
        """Sends nothing more: a new producer begins with the batch again."""
        if self._producer not in _abandoned:
            with contextlib.suppress(*_FAILED):
                self._producer.purge()

    def _kind(self) -> dict[str, Any]:
        """The settings that make the producer what it is."""
        return {"transactional.id": self._application_id}

    def _plain_producer(self) -> Producer:
        return Producer(self._producer_settings, logger=librdkafka)

    def _await_reason(self, refused: list[Refused]) -> None:
        """Has the producer tell why records were refused: that it takes no more of them may come before."""
        deadline = time.monotonic() + _REASON_SECONDS
        with contextlib.suppress(*_FAILED):
            self._producer.poll(0)
            while refused and _first_reason(refused) is None and time.monotonic() < deadline:
                self._producer.poll(_REASON_SECONDS / 20)

    def _ask_again(self) -> None:
        """Has Kafka say why it failed: it does so without a reason when a second producer comes during a commit."""
        with contextlib.suppress(KafkaException):
            _bounded(self._producer, lambda: self._producer.abort_transaction(_ABORT_SECONDS), _ABORT_SECONDS)

    def _producers_error(self) -> KafkaException | None:
        """What has made the producer, or its transaction, useless; what is asked of it next is refused with that."""
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            found: KafkaError = error.args[0]
            return error if found.fatal() or found.txn_requires_abort() else None
        return None

    def _new_producer(self) -> Producer:
        producer = self._plain_producer()
        try:
            _bounded(producer, lambda: producer.init_transactions(_START_SECONDS), _START_SECONDS)
        except KafkaException as error:
            raise self._reason(error, []) from error
        return producer

    def _row(self, key: bytes, value: bytes) -> Iterator[tuple[str, list[Row]]]:
        """A row for the topic of commits."""
        yield commits_topic(self._application_id), [(0, _now(), key, value, NO_HEADERS)]

    def _deliver(self, refused: list[Refused], topics: Iterable[str] = ()) -> None:
        """Waits until every record is delivered, as long as something moves.

        librdkafka hopes longer for a topic that does not exist. If Kafka answers that it is not there, it is not away.
        """
        left, moved = len(self._producer), time.monotonic()
        while not refused and (now_left := self._producer.flush(1.0)):
            if now_left < left:
                left, moved = now_left, time.monotonic()
            elif time.monotonic() - moved > self._timeout:
                Topics(self._settings, self._timeout).require(topics, WRITES)
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        if refused:
            raise KafkaException(refused[0].error)

    def _abort(self, reason: Exception) -> None:
        """Ends the transaction, so that readers need not wait for its time-out."""
        if isinstance(reason, (FencedError, KafkaAway)):
            return  # a new producer ends it
        with contextlib.suppress(KafkaException):
            _bounded(self._producer, lambda: self._producer.abort_transaction(_ABORT_SECONDS), _ABORT_SECONDS)

    # --- what went wrong -----------------------------------------------------------------------------------------

    def _reason_of(self, error: Exception, refused: list[Refused], read: Iterable[str]) -> Exception:
        """The error to raise for one that a transaction failed with."""
        self._await_reason(refused)
        if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.UNKNOWN:
            self._ask_again()
        told, known = _told(error), self._producers_error()
        if known is not None and known.args[0].fatal():
            return self._reason(known, [])
        if known is not None and told.args[0].code() in _NO_REASON:
            told = known
        return self._reason(told, refused, read)

    def _reason(self, error: KafkaException, refused: list[Refused], read: Iterable[str] = ()) -> Exception:
        """The error to raise for one of librdkafka's; `read` are the topics whose offsets were committed."""
        first = _first_reason(refused)
        cause: KafkaError = error.args[0] if first is None else first.error
        servers = self._settings.bootstrap_servers
        if cause.code() in _FENCED:
            return self._fenced()
        if is_refused(cause):
            return self._not_allowed(cause, refused, read)
        if first is None and cause.code() == KafkaError.UNKNOWN:
            return KafkaAway(f"Kafka at {servers} did not say what became of a batch: {cause.str()}")
        if is_away(cause) or cause.code() in _FORGOTTEN:
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

    def _not_allowed(self, cause: KafkaError, refused: list[Refused], read: Iterable[str]) -> Exception:
        """The error for what the user may not do. librdkafka does not name the topic where a transaction fails."""
        if cause.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            written = {each.topic for each in refused} | {commits_topic(self._application_id)}
            topics = Topics(self._settings, self._timeout)
            return topics.refusal(on_topics("Write", sorted(written)) + on_topics("Read", sorted(read)))
        needed = {
            KafkaError.GROUP_AUTHORIZATION_FAILED: Grant("Read", GROUP, self._application_id),
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Grant("Write", TRANSACTIONAL_ID, self._application_id),
            KafkaError.CLUSTER_AUTHORIZATION_FAILED: Grant("IdempotentWrite", CLUSTER),
        }
        return not_allowed(self._settings, [needed[cause.code()]])

    def _fenced(self) -> Exception:
        """A producer is fenced by a second one, and also when its transaction took too long."""
        limit = int(self._producer_settings.get("transaction.timeout.ms", _TRANSACTION_MS)) / 1000
        if time.monotonic() - self._began > limit and not self._is_replaced():
            return KafkaAway(f"Kafka has given up a transaction that took longer than {limit:.0f} seconds")
        return taken_over(self._application_id)

    def _is_replaced(self) -> bool:
        """Whether another process has committed since its own last commit.

        An older one was told by a broker that does not know yet that it was replaced: it is asked again.
        """
        deadline = time.monotonic() + self._timeout
        while True:
            found = last_commit(self._settings, self._application_id)
            if self._last is None or (found is not None and found.batch >= self._last.batch):
                return _token(found) != _token(self._last)
            if time.monotonic() > deadline:
                raise KafkaAway(f"Kafka at {self._settings.bootstrap_servers} does not show the last commit")
            time.sleep(_PAUSE_SECONDS)

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
    """At least once: results first, then the commit record and the offsets."""

    marker: ClassVar = 0

    def __init__(self, settings: ClientSettings, application_id: str, timeout: float = _SILENCE_SECONDS) -> None:
        super().__init__(settings, application_id, timeout)
        self._topics = Topics(settings, timeout)
        self._end: int | None = None
        """The end of the topic of commits, when the last record there was this process's."""

    def _write(
        self,
        outputs: Outputs,
        last: Iterable[tuple[str, list[Row]]],
        offsets: Mapping[tuple[str, int], int],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        check()
        refused: list[Refused] = []
        try:
            # Before anything is written too: a changelog must not end with what a process wrote that was replaced.
            self._check_alone()
            refused = produce_all(self._producer, outputs)
            self._deliver(refused, outputs.topics)
            self._check_alone()
            refused = produce_all(self._producer, last)
            self._deliver(refused)
            self._end = self._end + 1 if self._end is not None else None
            positions = _positions(offsets)
            if positions:
                self._consumer.commit(offsets=positions, asynchronous=False)
        except _FAILED as error:
            reason = self._reason(_told(error), refused, {topic for topic, _ in offsets})
            self._give_up()
            raise reason from error

    def _write_and_abort(self, rows: list[tuple[str, list[Row]]]) -> None:
        """By a producer with transactions: this one cannot take back what it has written."""
        transactional = TransactionalCommitter(self._settings, self._application_id, self._timeout)
        try:
            transactional._write_and_abort(rows)
        finally:
            transactional.close()

    def _check_alone(self) -> None:
        """Raises FencedError where another process has committed: nothing fences a producer without transactions."""
        if not self._knows_last:
            return
        place = (commits_topic(self._application_id), 0)
        end = self._topics.ends([place], committed=False)[place]
        if end == self._end:
            return
        if self._is_replaced():
            raise taken_over(self._application_id)
        self._end = end

    def _kind(self) -> dict[str, Any]:
        return {"enable.idempotence": True}

    def _new_producer(self) -> Producer:
        return self._plain_producer()


def _now() -> int:
    return int(time.time() * 1000)


def _token(commit: CommitRecord | None) -> str | None:
    return None if commit is None else commit.token


def _bounded(producer: Producer, call: Callable[[], None], seconds: float) -> None:
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
    for _ in range(math.ceil((seconds + _MARGIN_SECONDS) / _STEP_SECONDS)):
        with contextlib.suppress(Empty):
            error = ended.get(timeout=_STEP_SECONDS)
            break
    else:
        _abandoned.append(producer)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    if error is not None:
        raise error


def _first_reason(refused: list[Refused]) -> Refused | None:
    """The first record that was refused for a reason of its own."""
    return next((each for each in refused if each.error.code() not in _NO_REASON), None)


def _told(error: Exception) -> KafkaException:
    """What librdkafka has told; anything else is raised again."""
    found = error.__cause__ if isinstance(error, SystemError) else error
    if not isinstance(found, KafkaException):
        raise error
    return found


def _positions(offsets: Mapping[tuple[str, int], int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
