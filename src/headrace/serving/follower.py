"""Follows topics of changelogs: a thread that reads committed records into the copies, as they come."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from headrace.kafka.access import is_refused, on_topics, refused
from headrace.kafka.clients import ClientSettings
from headrace.record import NO_HEADERS
from headrace.serving.copies import Copies, PartitionCopy
from headrace.serving.moves import Moves
from headrace.state.rebuild import ChangelogRecord

logger = logging.getLogger(__name__)

_RECORDS_AT_ONCE = 20_000
_POLL_SECONDS = 0.1
_SETTINGS = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 100,
    "fetch.queue.backoff.ms": 20,  # once its queue is full the client waits for a second otherwise: too long to restore
    "queued.max.messages.kbytes": 65536,
}

Place = tuple[str, int]
"""Topic and partition."""


class _Part:
    """What was read of one partition at once."""

    __slots__ = ("copy", "end", "position", "records")

    def __init__(self, copy: PartitionCopy) -> None:
        self.copy = copy
        self.records: list[ChangelogRecord] = []
        self.position = copy.position
        self.end: int | None = None
        """Where the partition ends, if that was seen."""

    @property
    def has_moved(self) -> bool:
        """Whether there is something to take over."""
        return bool(self.records) or self.position != self.copy.position


class Follower:
    """Reads the partitions it is told to into their copies."""

    def __init__(
        self,
        settings: ClientSettings,
        group: str,
        copies: Copies,
        moves: Moves,
        on_failure: Callable[[Exception], None],
    ) -> None:
        """librdkafka wants a group; it is not joined, as partitions are assigned by hand."""
        self._settings = settings
        self._copies = copies
        self._consumer = Consumer(settings.consumer(**{**_SETTINGS, "group.id": group}), logger=logger)
        self._followed: dict[Place, PartitionCopy] = {}
        self._wanted: dict[Place, PartitionCopy] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._on_failure = on_failure
        self._thread = threading.Thread(target=self._run, name="headrace-follower", daemon=True)
        self._moves = moves

    def start(self) -> None:
        """Begins to read."""
        self._thread.start()

    def follow(self, copies: Iterable[PartitionCopy]) -> None:
        """Follows these copies from now on, and no others."""
        with self._lock:
            self._wanted = {(copy.store.topic, copy.id.partition): copy for copy in copies}

    def close(self) -> None:
        """Ends the thread."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._change_partitions()
                if self._followed:
                    self._take(self._consumer.consume(_RECORDS_AT_ONCE, _POLL_SECONDS))
                    self._copies.keep_states()
                else:
                    self._over.wait(_POLL_SECONDS)
        except Exception as error:
            logger.exception("Copies can no longer be kept up to date")
            self._on_failure(error)
        finally:
            for copy in self._followed.values():
                copy.leave()
            self._consumer.close()

    def _change_partitions(self) -> None:
        with self._lock:
            wanted = self._wanted
        gone = [place for place, copy in self._followed.items() if wanted.get(place) is not copy]
        if gone:
            self._consumer.incremental_unassign([TopicPartition(*place) for place in gone])
            for place in gone:
                copy = self._followed.pop(place)
                copy.leave()
                logger.info("No longer follows %s at offset %s", copy.id, copy.position)
            self._moves.tell()
        new = [place for place in wanted if place not in self._followed]
        if new:
            for place in new:
                copy = self._followed[place] = wanted[place]
                copy.begin()
                logger.info("Follows %s from offset %s", copy.id, copy.position)
            starts = [TopicPartition(*place, wanted[place].position or OFFSET_BEGINNING) for place in new]
            self._consumer.incremental_assign(starts)

    def _take(self, messages: list[Any]) -> None:
        parts = self._by_partition(messages)
        found = {part.copy.id: (part.records, part.position) for part in parts if part.has_moved}
        if found:
            self._copies.take(found)
        for part in parts:
            if part.end is not None:
                part.copy.read_to_end(part.end)
            part.copy.moved_on()
        if parts:
            self._moves.tell()

    def _by_partition(self, messages: list[Any]) -> list[_Part]:
        parts: dict[Place, _Part] = {}
        for message in messages:
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                self._complain(error, message.topic())
                continue
            place = (message.topic(), message.partition())
            part = parts.get(place)
            if part is None:
                copy = self._followed.get(place)
                if copy is None:
                    continue
                part = parts[place] = _Part(copy)
            offset = message.offset()
            if offset < part.position:
                part.copy.go_back()
            if part.copy.went_back:
                continue
            if error is not None:
                part.position = part.end = offset
                continue
            key = message.key()
            if key is not None:
                part.records.append((key, message.value(), message.timestamp()[1], NO_HEADERS))
            part.position = offset + 1
        return list(parts.values())

    def _complain(self, error: KafkaError, topic: str | None) -> None:
        if error.fatal():
            raise KafkaException(error)
        if topic is not None and is_refused(error):
            raise refused(self._settings, on_topics("Read", [topic]))
        logger.info("Kafka, while copies are kept up to date: %s", error)
