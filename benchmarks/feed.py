"""Gives an application batches, and sees how long they take."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.contenders.running import Running
from benchmarks.display import Advance
from benchmarks.offsets import Offsets
from benchmarks.orders import Order
from benchmarks.stand import Stand

_POLL_SECONDS = 0.002
_STUCK_SECONDS = 600.0


class Feed:
    """Gives an application records, all of them visible at once, and sees when they are committed."""

    def __init__(self, stand: Stand, running: Running) -> None:
        its = running.application
        self._running = running
        self._topic = its.sources[0]
        self._offsets = Offsets(stand.servers, its.application_id, its.partitions)
        self._ends = [0] * its.partitions
        self._producer = Producer(
            {
                "bootstrap.servers": stand.servers,
                "transactional.id": f"feed-{self._topic}",
                "partitioner": "murmur2_random",
                "log_level": 0,
            }
        )
        self._producer.init_transactions()

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *_: object) -> None:
        self._offsets.close()

    def send(self, records: Iterable[Order]) -> float:
        """The seconds from the moment the records are there to the commit of all that came of them."""
        self._producer.begin_transaction()
        for order in records:
            self._producer.produce(
                self._topic,
                order.value,
                order.location_id,
                timestamp=order.timestamp,
                on_delivery=self._on_delivery,
            )
        self._producer.flush()
        started = time.monotonic()
        self._producer.commit_transaction()
        self.await_committed(self._ends)
        return time.monotonic() - started

    def await_all(self, advance: Advance = lambda done: None) -> None:
        """Waits until the application is through with all that is in the topic."""
        self.await_committed(self._offsets.ends(self._topic), advance)

    def await_committed(self, ends: Sequence[int], advance: Advance = lambda done: None) -> None:
        """Waits until the application is through with the partitions up to these offsets."""
        deadline = time.monotonic() + _STUCK_SECONDS
        while True:
            committed = self._offsets.committed(self._topic)
            if all(through >= end for through, end in zip(committed, ends, strict=True)):
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self._topic} was not read to its end within {_STUCK_SECONDS:.0f} seconds.")
            advance(sum(committed))
            self._running.check()
            time.sleep(_POLL_SECONDS)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"Kafka did not take an order: {error}")
        self._ends[message.partition()] = message.offset() + 1
