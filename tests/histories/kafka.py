"""What Kafka has of the application: its changelogs by offset, and their ends as time goes by."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from headrace.errors import KafkaAway
from headrace.kafka.clients import ClientSettings
from headrace.kafka.topics import Topics
from headrace.serdes.forms.window_key import unpack_window_store_key
from tests.histories.checker import Committed
from tests.histories.committed import Ends, Log, Partition, Record, Sample
from tests.histories.history import Place, Value
from tests.histories.orders import PARTITIONS, SALES, STORES, changelog, content

_MANY = 10_000
_SHORT_SECONDS = 0.2
_PATIENCE_SECONDS = 120.0
_LOOK_SECONDS = 0.05
_KEEP = {"min.compaction.lag.ms": str(2**63 - 1)}


class Observer:
    """Notes where the changelogs end for a read_committed reader, all the time."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._topics = Topics(settings)
        self._samples: list[Sample] = []
        self._places = {(changelog(store), each): (store, each) for store in STORES for each in range(PARTITIONS)}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Looks again and again meanwhile, and once more at the end."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_LOOK_SECONDS):
                self._look()

        thread = threading.Thread(target=watch, name="observer", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self._look()

    def keep_all_records(self) -> None:
        """Has Kafka compact nothing: every record is needed in the end."""
        for store in STORES:
            self._topics.configure(changelog(store), _KEEP)

    def committed(self) -> Committed:
        """What was committed up to now, and when."""
        records = read_changelogs(self._settings, committed=True)
        return Committed({place: Log(found) for place, found in records.items()}, Ends(self._samples), PARTITIONS)

    def aborted(self, committed: Committed) -> int:
        """How many records were written that no read_committed reader sees."""
        written = read_changelogs(self._settings, committed=False)
        return sum(map(len, written.values())) - sum(len(log.records) for log in committed.logs.values())

    def _look(self) -> None:
        asked = time.monotonic()
        try:
            ends = self._topics.ends(self._places)
        except KafkaAway:
            return
        answered = time.monotonic()
        self._samples.append(Sample(asked, answered, {self._places[place]: end for place, end in ends.items()}))


def read_changelogs(settings: ClientSettings, *, committed: bool) -> dict[Partition, list[Record]]:
    """Every record of the changelogs; with `committed`, only those of committed transactions."""
    consumer = Consumer(
        settings.consumer(
            **{
                "group.id": f"histories-{uuid.uuid4().hex}",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
    )
    stores = {changelog(store): store for store in STORES}
    found: dict[Partition, list[Record]] = {(store, each): [] for store in STORES for each in range(PARTITIONS)}
    consumer.assign([TopicPartition(topic, each, 0) for topic in stores for each in range(PARTITIONS)])
    left, deadline = len(found), time.monotonic() + _PATIENCE_SECONDS
    while left:
        assert time.monotonic() < deadline, "the changelogs do not end"
        for message in consumer.consume(_MANY, timeout=_SHORT_SECONDS):
            error = message.error()
            if error is None:
                store = stores[message.topic()]
                found[store, message.partition()].append(_record(store, message))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left -= 1
    consumer.close()
    return found


def _record(store: str, message: Any) -> Record:
    key, start = message.key(), 0
    if store == SALES:
        key, start, _ = unpack_window_store_key(key)
    value = message.value()
    timestamp = message.timestamp()[1]
    told = None if value is None else Value.of(content.deserialize(value), timestamp)
    return Record(message.offset(), Place(key.decode(), start), told)
