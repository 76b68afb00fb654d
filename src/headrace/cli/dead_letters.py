"""`headrace dlq`: the last records of a dead letter topic, with what Kafka Streams' headers say of the error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from headrace.errors import EnvironmentFailed, UnknownTopicError
from headrace.kafka.access import is_refused, on_topics, refused
from headrace.kafka.clients import ClientSettings
from headrace.kafka.topics import Topics
from headrace.task.handlers import (
    EXCEPTION_HEADER,
    MESSAGE_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    STACKTRACE_HEADER,
    TOPIC_HEADER,
)

_ERROR_HEADERS = frozenset(
    (EXCEPTION_HEADER, MESSAGE_HEADER, STACKTRACE_HEADER, TOPIC_HEADER, PARTITION_HEADER, OFFSET_HEADER)
)
_SILENCE_SECONDS = 30.0


@dataclass(frozen=True)
class DeadLetter:
    """A record that could not be processed."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def lines(self, stack_trace: bool = False) -> Iterator[str]:
        """The letter for people to read."""
        facts = dict(self.headers)
        when = datetime.fromtimestamp(self.timestamp / 1000, timezone.utc).isoformat(" ", "milliseconds")
        yield f"{self.topic} partition {self.partition} offset {self.offset}, {when}"
        yield f"  key    {readable(self.key)}"
        yield f"  value  {readable(self.value)}"
        error = [readable(facts[name]) for name in (EXCEPTION_HEADER, MESSAGE_HEADER) if facts.get(name)]
        if error:
            yield f"  error  {': '.join(error)}"
        if facts.get(TOPIC_HEADER):
            place = [readable(facts.get(name)) for name in (TOPIC_HEADER, PARTITION_HEADER, OFFSET_HEADER)]
            yield "  from   {} partition {} offset {}".format(*place)
        for name, value in self.headers:
            if name not in _ERROR_HEADERS:
                yield f"  header {name}: {readable(value)}"
        if stack_trace and facts.get(STACKTRACE_HEADER):
            yield from (f"    {line}" for line in readable(facts[STACKTRACE_HEADER]).splitlines())


def readable(content: bytes | None) -> str:
    """Bytes as text where they are text, else in hexadecimal."""
    if content is None:
        return "null"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return f"0x{content.hex()}"
    return text if all(letter.isprintable() or letter in "\n\r\t" for letter in text) else f"0x{content.hex()}"


def read_dead_letters(settings: ClientSettings, topic: str, limit: int) -> list[DeadLetter]:
    """The last letters of the topic, oldest first."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    topics = Topics(settings)
    counts = topics.describe([topic])
    if topic not in counts:
        topics.check_access(on_topics("Read", [topic]))
        raise UnknownTopicError(f"Kafka at {settings.bootstrap_servers} has no topic {topic}.")
    places = [(topic, number) for number in range(counts[topic])]
    beginnings, ends = topics.beginnings(places), topics.ends(places)
    # Each transaction's end takes an offset too: twice as many offsets hold the last letters.
    starts = [
        TopicPartition(*place, max(beginnings[place], ends[place] - 2 * limit - 1))
        for place in places
        if ends[place] > beginnings[place]
    ]
    ours = {
        "group.id": "headrace-dlq",  # asked for by the client, never used: partitions are assigned by hand
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    consumer = Consumer({"log_level": 0, **settings.consumer(**ours)})
    letters: list[DeadLetter] = []
    try:
        consumer.assign(starts)
        unread = {start.partition for start in starts}
        while unread:
            message = consumer.poll(_SILENCE_SECONDS)
            if message is None:
                raise EnvironmentFailed(f"Kafka at {settings.bootstrap_servers} went silent.")
            error = message.error()
            if error is None:
                letters.append(_letter(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
            elif message.topic() is not None and is_refused(error):
                raise refused(settings, on_topics("Read", [topic]))
            elif error.fatal():
                raise EnvironmentFailed(f"{topic} cannot be read: {error.str()}")
    finally:
        consumer.close()
    return sorted(letters, key=lambda letter: (letter.timestamp, letter.partition, letter.offset))[-limit:]


def _letter(message: Any) -> DeadLetter:
    return DeadLetter(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
