"""The commit record: all that an application must know to go on after its last batch, beside its changelogs.

Each batch writes one record to the compacted topic `<application>-commits`, in the transaction of its results. It is
the only thing that says what was committed: group offsets are written for Kafka's tools, working copies are caches.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headrace.errors import EnvironmentFailed, FencedError, KafkaAway, TopologyError
from headrace.kafka.absence import is_away
from headrace.kafka.access import is_refused, refused, to_read
from headrace.kafka.clients import ClientSettings
from headrace.kafka.internal_topics import commits_topic
from headrace.kafka.topics import Topics
from headrace.spark.fingerprint import Fingerprint, differences

KEY = b"commit"
"""The key of every commit record: compaction keeps the last one."""
CLAIM = b"claim"
"""The key of the record that a process writes before it looks for the last commit."""
NOTHING = ""
"""The version of a task that has never run."""
_COMPRESSED_FROM = 100_000
_COMPRESSION_LEVEL = 1
_FIRST_LOOK = 16
"""How many of the last offsets are read first; most commits take two, the record and the transaction's marker."""
_SILENCE_SECONDS = 45.0
"""How long a broker that has just started may take to answer."""
_PAUSE_SECONDS = 0.05


class TaskState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a task remembers beside the entries of its stores."""

    version: str = NOTHING
    """The version of its stores: a working copy of another version is of no use."""
    snapshot: dict[str, Any] | None = None
    """Its times, schedules and its operators' numbers."""
    facts: dict[str, dict[str, bytes]] = {}
    """By store, what it keeps beside its entries."""
    due: int | None = None
    """When its next punctuation by the wall clock is due, in milliseconds."""


NEVER_RUN = TaskState()


class CommitRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of an application after a batch."""

    batch: int
    token: str
    """Unique to the attempt that wrote it."""
    offsets: dict[str, dict[int, int]]
    """By source topic and partition, the next offset to read."""
    topic_ids: dict[str, str]
    """By source topic its id: a topic of the same name that was created again has another."""
    changelog_ids: dict[str, str]
    """By changelog its id."""
    tasks: dict[str, TaskState]
    topology: Fingerprint

    def positions(self) -> dict[tuple[str, int], int]:
        """The next offset to read of each source partition."""
        return {(topic, number): offset for topic, by in self.offsets.items() for number, offset in by.items()}

    def pack(self) -> bytes:
        """The record's value: JSON, compressed where there is much of it, as Kafka takes no more than a megabyte."""
        packed = msgspec.json.encode(self)
        return packed if len(packed) < _COMPRESSED_FROM else zlib.compress(packed, _COMPRESSION_LEVEL)


def last_commit(settings: ClientSettings, application_id: str, patience: float = 0.0) -> CommitRecord | None:
    """The last commit that any process has made, None where there is none. Asking disturbs no running application.

    A commit that is under way is waited for, for so many seconds. A broker that stood still while another one took its
    place does not know of that when it goes on, and answers with what was the last commit before.
    """
    return _look_for_last(settings, application_id, patience).commit


class Claimed(NamedTuple):
    """The last commit of a process that has written a claim, and when that was by the clock of the broker."""

    commit: CommitRecord | None
    at: int


def claimed_commit(settings: ClientSettings, application_id: str, claim: bytes) -> Claimed:
    """The last commit as a broker has it that also has the claim: one that was replaced is not believed."""
    deadline = time.monotonic() + _SILENCE_SECONDS
    while True:
        found = _look_for_last(settings, application_id)
        if found.claim is not None and found.claim.value == claim:
            return Claimed(found.commit, found.claim.at)
        if time.monotonic() > deadline:
            topic = commits_topic(application_id)
            raise KafkaAway(f"Kafka at {settings.bootstrap_servers} does not show what was written to topic {topic}")
        time.sleep(_PAUSE_SECONDS)


class _Seen(NamedTuple):
    """A record of the topic of commits."""

    value: bytes
    at: int


class _Found(NamedTuple):
    """What a look at the topic of commits has found."""

    commit: CommitRecord | None
    claim: _Seen | None


def _look_for_last(settings: ClientSettings, application_id: str, patience: float = 0.0) -> _Found:
    """The last commit and the last claim, as the broker has them that counts as the leader for those who ask first."""
    topic = commits_topic(application_id)
    topics = Topics(settings, _SILENCE_SECONDS)
    if topic not in topics.describe([topic]):
        return _Found(None, None)
    if patience:
        topics.await_committed({topic: 1}, patience)
    place = (topic, 0)
    beginning, end = topics.beginnings([place])[place], topics.ends([place], committed=False)[place]
    ours = {
        "group.id": application_id,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        # Behind the last record there is only the transaction's marker: half a second would be spent to see that.
        "fetch.wait.max.ms": 10,
    }
    consumer = Consumer({"log_level": 0, **settings.consumer(**ours)})
    try:
        look = _FIRST_LOOK
        while True:
            start = max(beginning, end - look)
            found = _last_records(consumer, TopicPartition(topic, 0, start), end)
            commit = found.get(KEY)
            if commit is not None or start == beginning:
                return _Found(None if commit is None else unpack_commit(commit.value, topic), found.get(CLAIM))
            look *= 16
    except KafkaException as error:
        if is_away(error):
            raise KafkaAway(f"Kafka at {settings.bootstrap_servers} does not answer: {error}") from error
        if is_refused(error):
            raise refused(settings, [to_read(error, topic, application_id)]) from error
        raise EnvironmentFailed(f"Topic {topic} cannot be read: {error}") from error
    finally:
        consumer.close()


def _last_records(consumer: Consumer, start: TopicPartition, end: int) -> dict[bytes, _Seen]:
    """The last committed record of each key between two offsets; open transactions are not waited for.

    While another process commits there is always more to read: what comes after the end is not asked for.
    """
    consumer.assign([start])
    found: dict[bytes, _Seen] = {}
    deadline = time.monotonic() + _SILENCE_SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            if message.key() is not None and message.value() is not None:
                found[message.key()] = _Seen(message.value(), message.timestamp()[1])
            if int(message.offset() or 0) >= end - 1:
                return found
        elif error.code() == KafkaError._PARTITION_EOF:
            return found
        else:
            raise KafkaException(error)
    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def unpack_commit(value: bytes, topic: str) -> CommitRecord:
    """The record of a value."""
    try:
        is_json = value.startswith(b"{")
        return msgspec.json.decode(value if is_json else zlib.decompress(value), type=CommitRecord)
    except (msgspec.MsgspecError, zlib.error) as error:
        raise EnvironmentFailed(
            f"The last record of topic {topic} is not a commit record of this version of Headrace: {error}. Start the "
            "application with the version that wrote it, or start over with: headrace reset"
        ) from None


# --- what a start finds ------------------------------------------------------------------------------------------


def check_begin(
    settings: ClientSettings, application_id: str, changelogs: Iterable[str], sources: Iterable[str]
) -> None:
    """Raises where an application without a commit record has left traces in its changelogs or in its group.

    To begin again would lose what they stand for.
    """
    topics = Topics(settings)
    known = topics.describe(changelogs)
    ends = topics.ends(((topic, number) for topic, count in known.items() for number in range(count)), committed=False)
    written = sorted({topic for (topic, _), end in ends.items() if end > 0})
    traces = [f"the topic {topic} has records" for topic in written]
    if topics.has_committed(application_id, sources):
        traces.append(f"the consumer group {application_id} has committed offsets")
    if traces:
        listed = "\n".join(f"  - {trace}" for trace in traces)
        raise EnvironmentFailed(
            f"The application {application_id} has run before, but topic {commits_topic(application_id)} has no commit "
            f"record, so where it stopped is not known:\n{listed}\n"
            "Nothing was touched. Restore the topic, choose another application_id, or start over from the beginning "
            "of the source topics with: headrace reset"
        )


def check_topology(record: CommitRecord, now: Fingerprint, application_id: str) -> None:
    """Raises where the state of the last commit cannot go on with this topology."""
    changes = differences(record.topology, now)
    if changes:
        listed = "\n".join(f"  - {change}" for change in changes)
        raise TopologyError(
            f"The state of {application_id} belongs to another topology:\n{listed}\n"
            "Nothing was touched. Go on with the old topology, give the new one another application_id, or start over "
            "from the beginning of the source topics with: headrace reset"
        )


def created_again(known: Mapping[str, str], topic_ids: Mapping[str, str]) -> set[str]:
    """The topics that have another id than they had."""
    return {topic for topic, topic_id in topic_ids.items() if known.get(topic, topic_id) != topic_id}


def check_topics(known: Mapping[str, str], topic_ids: Mapping[str, str]) -> None:
    """Raises where a source topic was deleted and created again: its offsets mean other records now."""
    changed = sorted(created_again(known, topic_ids))
    if changed:
        raise EnvironmentFailed(
            f"Topic {', '.join(changed)} was deleted and created again since the last commit, so the offsets "
            "committed for it mean other records now. Nothing was touched. Give the application another "
            "application_id, go on with the new topic from its beginning by setting failOnDataLoss to false in the "
            "spark settings, or start over from the beginning of the source topics with: headrace reset"
        )


def check_changelogs(known: Mapping[str, str], topic_ids: Mapping[str, str]) -> None:
    """Raises where a changelog is gone, or was created again: what it had cannot be rebuilt."""
    lost = sorted(topic for topic, topic_id in known.items() if topic_ids.get(topic) != topic_id)
    if lost:
        raise EnvironmentFailed(
            f"Topic {', '.join(lost)} was deleted since the last commit, and with it the entries of a store. Nothing "
            "was touched. Restore the topic, give the application another application_id, or start over from the "
            "beginning of the source topics with: headrace reset"
        )


def taken_over(application_id: str) -> FencedError:
    """The error of a process that finds another one in its place."""
    return FencedError(
        f"Another process runs the application {application_id} and has taken over; this one stops. "
        "Nothing is lost: the other one goes on after the last batch that was committed."
    )
