"""How far a group is: the offsets it has committed, asked from outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from benchmarks.orders import PARTITIONS

_T = TypeVar("_T")

_TIMEOUT = 30.0
_PAUSE = 0.1
_SETTLING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
)


class Offsets:
    """The committed offsets of a group, by topic and partition."""

    def __init__(self, servers: str, group: str, partitions: int = PARTITIONS) -> None:
        self._count = partitions
        # An offset in a transaction that is still open is not waited for: it does not count yet.
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_uncommitted",
                "log_level": 0,
            }
        )

    def committed(self, topic: str) -> list[int]:
        """The offset of each partition up to which the group is through."""
        found = _ask(lambda: self._consumer.committed(self._partitions(topic), timeout=_TIMEOUT))
        return [max(0, partition.offset) for partition in found]

    def ends(self, topic: str) -> list[int]:
        """The end of each partition, open transactions included."""
        return [_ask(partial(self._end, partition)) for partition in self._partitions(topic)]

    def close(self) -> None:
        """Lets go of the connection."""
        self._consumer.close()

    def _partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in range(self._count)]

    def _end(self, partition: TopicPartition) -> int:
        return self._consumer.get_watermark_offsets(partition, timeout=_TIMEOUT)[1]


def _ask(question: Callable[[], _T]) -> _T:
    """The broker's answer; one that has just started, or made a topic, may need a moment for it."""
    deadline = time.monotonic() + _TIMEOUT
    while True:
        try:
            return question()
        except KafkaException as error:
            if error.args[0].code() not in _SETTLING or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
