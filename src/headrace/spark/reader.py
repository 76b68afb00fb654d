"""Reads ranges of Kafka's partitions in a worker."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from operator import itemgetter

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.errors import EnvironmentFailed, KafkaAway, RecordsLost
from headrace.kafka.absence import is_away
from headrace.kafka.access import is_refused, refused, to_read
from headrace.kafka.clients import ClientSettings
from headrace.record import NO_HEADERS
from headrace.spark.ranges import Range, Row

librdkafka = logging.getLogger("headrace.librdkafka")

_AT_ONCE = 200
"""How many records are taken from the consumer at once: so few that they stay in the processor's cache."""
_AHEAD = 2_000
"""While fewer records than this wait, the consumer asks Kafka for more; what is beyond a range is thrown away."""
_POLL_SECONDS = 1.0
_SILENCE_SECONDS = 15.0
"""How long Kafka may be silent until it counts as away."""
_HEADERS = itemgetter(4)
_LOST = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_CONSUMER = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    # A fetch that is under way when a range is through would hold up the first one of the next.
    "fetch.wait.max.ms": 1,
    "fetch.queue.backoff.ms": 1,
    "queued.min.messages": _AHEAD,
}


class KafkaReader:
    """Reads one range after the other."""

    def __init__(self, settings: ClientSettings, group: str, *, skip_lost: bool = False) -> None:
        """librdkafka wants a group; it is not joined, and nothing is committed."""
        self.has_failed = False
        self._known: set[str] = set()
        """Topics that the consumer knows where to find."""
        self._settings = settings
        self._group = group
        self._servers = settings.bootstrap_servers
        ours = {**_CONSUMER, "group.id": group, "auto.offset.reset": "earliest" if skip_lost else "error"}
        self._consumer = Consumer({**ours, **settings.consumer()}, logger=librdkafka)

    def read(self, wanted: Range) -> Iterator[list[Row]]:
        """The records of a range in their order, some at a time: offset, timestamp, key, value, headers."""
        start, end = wanted.start, wanted.end
        self._meet(wanted)
        try:
            self._consumer.assign([TopicPartition(wanted.topic, wanted.partition, start)])
            position = start
            while position < end:
                arrived = self._arrived(wanted, end - position)
                if any(map(Message.error, arrived)):
                    # Marks of transactions take offsets too, and are no records: they may be the last of a range.
                    position = self._end_among(arrived, wanted, position)
                    arrived = [each for each in arrived if each.error() is None]
                rows = _rows(arrived)
                if rows:
                    position = max(position, rows[-1][0] + 1)
                    if position > end or rows[0][0] < start:
                        rows = [row for row in rows if start <= row[0] < end]
                yield rows
        finally:
            # An assigned consumer would go on to ask Kafka for more.
            self._consumer.unassign()

    def close(self) -> None:
        """Lets go of the connections."""
        self._consumer.close()

    def _meet(self, wanted: Range) -> None:
        """Asks where a topic is; the consumer, left to itself, finds one that is new to it after a second."""
        if wanted.topic in self._known:
            return
        try:
            self._consumer.list_topics(wanted.topic, _SILENCE_SECONDS)
        except KafkaException as error:
            self._check(error.args[0], wanted)
        self._known.add(wanted.topic)

    def _arrived(self, wanted: Range, most: int) -> list[Message]:
        """What has arrived, at least one message."""
        deadline = time.monotonic() + _SILENCE_SECONDS
        while time.monotonic() < deadline:
            arrived: list[Message] = self._consumer.consume(1, _POLL_SECONDS)
            if arrived:
                arrived += self._consumer.consume(min(_AT_ONCE, most), 0)
                return arrived
        self.has_failed = True
        raise KafkaAway(f"Kafka at {self._servers} does not send {_text(wanted)}")

    def _end_among(self, arrived: list[Message], wanted: Range, position: int) -> int:
        """The offset at which the partition ends by a message, `position` if none says so; other errors are raised."""
        for message in arrived:
            error = message.error()
            if error is not None:
                self._check(error, wanted)
                position = message.offset()
        return position

    def _check(self, error: KafkaError, wanted: Range) -> None:
        """Raises what is wrong; that a partition has come to its end is not."""
        if error.code() == KafkaError._PARTITION_EOF:
            return
        self.has_failed = True
        if error.code() in _LOST:
            raise RecordsLost(
                f"Kafka at {self._servers} no longer has all of {_text(wanted)}: they were deleted, by the topic's "
                "retention or with the topic, before they were read. To go on with what is left, set failOnDataLoss to "
                "false in the spark settings; to begin anew: headrace reset"
            )
        if is_away(error):
            raise KafkaAway(f"Kafka at {self._servers} does not send {_text(wanted)}: {error.str()}")
        if is_refused(error):
            raise refused(self._settings, [to_read(error, wanted.topic, self._group)])
        raise EnvironmentFailed(f"Kafka at {self._servers} refused to send {_text(wanted)}: {error.str()}")


def _rows(messages: list[Message]) -> list[Row]:
    """The records as rows."""
    rows: list[Row] = [
        (each.offset(), each.timestamp()[1], each.key(), each.value(), each.headers() or NO_HEADERS)
        for each in messages
    ]
    if any(map(_HEADERS, rows)):
        rows = [(*row[:4], tuple(row[4])) for row in rows]
    return rows


def _text(wanted: Range) -> str:
    return f"offsets {wanted.start} to {wanted.end - 1} of partition {wanted.partition} of topic {wanted.topic}"


_readers: dict[tuple[str, int], KafkaReader] = {}
"""By program and number; a task that merges several topics reads each with a reader of its own."""


def reader_for(
    program_id: str, settings: ClientSettings, group: str, *, skip_lost: bool, number: int = 0
) -> KafkaReader:
    """A reader of this process, kept from batch to batch as long as nothing fails."""
    reader = _readers.get((program_id, number))
    if reader is None or reader.has_failed:
        for known in [each for each in _readers if each[0] != program_id or each[1] == number]:
            _readers.pop(known).close()
        reader = _readers[program_id, number] = KafkaReader(settings, group, skip_lost=skip_lost)
    return reader
