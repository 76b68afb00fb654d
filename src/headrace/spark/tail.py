"""The end of the source partitions, followed by the driver: it is woken when something arrives.

Where little arrives, what wakes the driver is all that the batch has to read: the records are handed to the workers
with the batch, and no worker asks Kafka for them again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.kafka.clients import ClientSettings
from headrace.record import NO_HEADERS
from headrace.spark.ranges import Range, Row

librdkafka = logging.getLogger("headrace.librdkafka")

MOST_RECORDS = 2_000
"""With more records than this ahead, workers read for themselves."""
_MOST_BYTES = 1 << 20
_SILENCE_SECONDS = 15.0
"""How long Kafka may be silent until it counts as away."""
_CONSUMER = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    # Kafka answers when something arrives, or after this time.
    "fetch.wait.max.ms": 250,
    "fetch.min.bytes": 1,
    "queued.min.messages": MOST_RECORDS,
    "queued.max.messages.kbytes": 4096,
    "fetch.queue.backoff.ms": 5,
}

Place = tuple[str, int]
"""A topic and the number of a partition."""


class Tail:
    """Reads the source partitions from the driver's positions on, for as long as it can hold what arrives."""

    def __init__(self, settings: ClientSettings, group: str) -> None:
        """librdkafka wants a group; it is not joined, and nothing is committed."""
        self._consumer = Consumer({**_CONSUMER, "group.id": group, **settings.consumer()}, logger=librdkafka)
        self._rows: dict[Place, list[Row]] = {}
        self._starts: dict[Place, int] = {}
        self._ends: dict[Place, int] = {}
        self._records = self._bytes = 0
        self._met: set[str] = set()
        """Topics that the consumer knows where to find."""
        self.is_following = False

    def has_more_than(self, records: int) -> bool:
        """Whether more has arrived than a batch should have, or than the driver should hold."""
        return self._records > min(records, MOST_RECORDS) or self._bytes > _MOST_BYTES

    @property
    def has_records(self) -> bool:
        """Whether records have arrived."""
        return self._records > 0

    @property
    def has_moved(self) -> bool:
        """Whether any partition goes on behind the driver's position, if only by the marker of a transaction."""
        return any(end > self._starts[place] for place, end in self._ends.items())

    def has_reached(self, ends: Mapping[Place, int]) -> bool:
        """Whether everything before these offsets has arrived."""
        return all(self._ends.get(place, 0) >= end for place, end in ends.items())

    def follow(self, positions: Mapping[Place, int]) -> None:
        """Begins to read at these offsets."""
        self._meet({topic for topic, _ in positions})
        self._forget()
        self._starts = dict(positions)
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in positions.items()])
        self.is_following = True

    def leave(self) -> None:
        """Reads no more, and forgets what it has read."""
        if self.is_following:
            self._consumer.unassign()
            self._forget()
            self.is_following = False

    def wait(self, seconds: float) -> None:
        """Waits until something arrives, and takes all that has."""
        message = self._consumer.poll(seconds)
        if message is not None:
            self._add([message])
            self._add(self._consumer.consume(MOST_RECORDS, 0))

    def take(self) -> list[Range]:
        """What has arrived, with its records; the next call gives what arrives after it."""
        ranges = [
            Range(*place, self._starts[place], end, rows=tuple(self._rows.get(place, ())))
            for place, end in sorted(self._ends.items())
            if end > self._starts[place]
        ]
        self._starts.update((each.place, each.end) for each in ranges)
        self._rows.clear()
        self._ends.clear()
        self._records = self._bytes = 0
        return ranges

    def close(self) -> None:
        """Lets go of the connections."""
        self._consumer.close()

    def _meet(self, topics: set[str]) -> None:
        """Asks where topics are; the consumer, left to itself, finds those that are new to it after a second."""
        if new := topics - self._met:
            # One answer about all topics of the cluster is less than one for each of many.
            self._consumer.list_topics(new.pop() if len(new) == 1 else None, _SILENCE_SECONDS)
            self._met |= topics

    def _forget(self) -> None:
        self._rows.clear()
        self._starts.clear()
        self._ends.clear()
        self._records = self._bytes = 0

    def _add(self, messages: Iterable[Message]) -> None:
        for message in messages:
            place = (str(message.topic()), int(message.partition() or 0))
            error, offset = message.error(), message.offset()
            if place not in self._starts:
                if error is not None and error.code() == KafkaError._ALL_BROKERS_DOWN:
                    raise KafkaException(error)
                continue
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                # Markers of transactions take offsets too, and are no records.
                self._ends[place] = max(offset, self._starts[place])
                continue
            headers = message.headers()
            key, value = message.key(), message.value()
            row = (offset, message.timestamp()[1], key, value, tuple(headers) if headers else NO_HEADERS)
            self._rows.setdefault(place, []).append(row)
            self._ends[place] = offset + 1
            self._records += 1
            self._bytes += len(key or b"") + len(value or b"")
            if headers:
                self._bytes += sum(len(name) + len(content or b"") for name, content in headers)
