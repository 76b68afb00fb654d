"""The changes of a store as they are committed, from a position on."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from headrace.errors import KafkaAway, StoreError
from headrace.kafka.access import is_refused
from headrace.kafka.clients import ClientSettings
from headrace.serdes.forms.session_key import unpack_session_key
from headrace.serdes.forms.window_key import unpack_window_store_key, window_end
from headrace.serving.catalog import WINDOW_KINDS, ServedStore
from headrace.topology.stores import StoreKind

_SETTINGS = {
    "group.id": "headrace-changes",  # asked for by the client, never used: partitions are assigned by hand
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 100,
    # What is read ahead of a reader takes memory for each of them.
    "queued.min.messages": 1000,
    "queued.max.messages.kbytes": 1024,
    "fetch.queue.backoff.ms": 20,
    "fetch.message.max.bytes": 256 * 1024,
}
_RECORDS_AT_ONCE = 500
_BYTES_AT_ONCE = 64 * 1024
_POLL_SECONDS = 0.2
_ASK_SECONDS = 10


_LOST = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


class PositionError(StoreError):
    """A position is not one of the store."""


class GapError(StoreError):
    """Kafka has deleted changes that were still to be read."""


@dataclass(frozen=True)
class Change:
    """A key that has a new value, or none any more, and where to go on from after it."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None
    timestamp: int
    positions: Mapping[int, int]
    start: int | None = None
    end: int | None = None


class ChangeReader:
    """Reads the changes of all partitions of a store."""

    def __init__(self, settings: ClientSettings, store: ServedStore, partitions: int, start: Mapping[int, int]) -> None:
        """`start` is by partition an offset, or OFFSET_BEGINNING for all that there is; others begin at their end."""
        self._store = store
        self._lock = threading.Lock()
        self.is_closed = False
        self.positions: dict[int, int] = {}
        """By partition, where to go on from."""
        self._consumer = Consumer(settings.consumer(**_SETTINGS))
        try:
            self._consumer.assign([self._begin(partition, start.get(partition)) for partition in range(partitions)])
        except BaseException:
            self._consumer.close()
            raise

    def read(self) -> list[Change]:
        """What has come, some at a time; nothing after a short while without changes, or once it is closed."""
        with self._lock:
            if self.is_closed:
                return []
            found: list[Change] = []
            size = 0
            message = self._consumer.poll(_POLL_SECONDS)
            while message is not None:
                if self._moves_on(message):
                    found.append(self._change(message))
                    size += len(message.key()) + len(message.value() or b"")
                if size > _BYTES_AT_ONCE or len(found) >= _RECORDS_AT_ONCE:
                    break
                message = self._consumer.poll(0)
            return found

    def close(self) -> None:
        """Lets go of the connection, when nobody reads."""
        with self._lock:
            if not self.is_closed:
                self.is_closed = True
                self._consumer.close()

    def _begin(self, partition: int, wanted: int | None) -> TopicPartition:
        """Where a partition is begun: as wanted, or at its end. What is not committed yet is still to come."""
        place = TopicPartition(self._store.topic, partition)
        try:
            first, end = self._consumer.get_watermark_offsets(place, _ASK_SECONDS)
        except KafkaException as error:
            raise KafkaAway(f"Kafka does not say where {place.topic} ends: {error}") from error
        if wanted is not None and wanted > end:
            raise PositionError(f"Partition {partition} of store {self._store.name} ends at {end}, before {wanted}.")
        if wanted is not None and OFFSET_BEGINNING != wanted < first:
            raise self._gap(partition, f"before offset {first}, and {wanted} is wanted")
        self.positions[partition] = end if wanted is None else first if wanted == OFFSET_BEGINNING else wanted
        place.offset = self.positions[partition]
        return place

    def _gap(self, partition: int, where: str) -> GapError:
        return GapError(
            f"Kafka has deleted changes of partition {partition} of store {self._store.name} {where}. Begin again with "
            "position=beginning, or with what comes from now on."
        )

    def _moves_on(self, message: Any) -> bool:
        """Takes in where the partition is; whether the message is a change."""
        error = message.error()
        if error is None:
            self.positions[message.partition()] = message.offset() + 1
            return message.key() is not None
        if error.code() == KafkaError._PARTITION_EOF:
            self.positions[message.partition()] = message.offset()
        elif error.code() in _LOST:
            partition = int(message.partition())
            raise self._gap(partition, f"after offset {self.positions.get(partition, 0)}")
        elif error.fatal() or is_refused(error):
            raise KafkaException(error)
        return False

    def _change(self, message: Any) -> Change:
        key, start, end = message.key(), None, None
        kind = self._store.spec.kind
        if kind in WINDOW_KINDS:
            key, start, _ = unpack_window_store_key(key)
            end = window_end(start, self._store.spec.window_size_ms)
        elif kind is StoreKind.SESSION:
            key, start, end = unpack_session_key(key)
        return Change(
            message.partition(),
            message.offset(),
            key,
            message.value(),
            message.timestamp()[1],
            dict(self.positions),
            start,
            end,
        )
