"""What a contender wrote, in a form in which two contenders can be compared."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from benchmarks.orders import PARTITIONS

Outcome = dict[bytes, list[Any]]
"""The values of each key, in order."""

_SETTLE_SECONDS = 60.0
_CHUNK = 10_000
_SHOWN = 3


def read_outcome(servers: str, topic: str, of: Any, last_only: bool, told: Callable[[int], None]) -> Outcome:
    """What is committed in a topic: all values of each key, or the last one, decoded as the type."""
    decode = msgspec.json.Decoder(of).decode
    consumer = _consumer(servers, "read_committed")
    _await_no_open_transaction(servers, topic, consumer)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    raw: dict[bytes, list[bytes]] = {}
    read, unfinished = 0, PARTITIONS
    while unfinished:
        for message in consumer.consume(_CHUNK, timeout=1.0):
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                unfinished -= 1
            elif last_only:
                raw[message.key()] = [message.value()]
            else:
                raw.setdefault(message.key(), []).append(message.value())
            read += 1
        told(read)
    consumer.close()
    return {key: [decode(value) for value in values] for key, values in raw.items()}


def difference(one: Outcome, other: Outcome) -> str | None:
    """In which keys two outcomes differ; None if they are equal."""
    if one == other:
        return None
    keys = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
    shown = "; ".join(f"{key!r}: {one.get(key)} and {other.get(key)}" for key in keys[:_SHOWN])
    return f"{len(keys):,} of {len(one.keys() | other.keys()):,} keys differ, such as {shown}"


def _await_no_open_transaction(servers: str, topic: str, committed: Consumer) -> None:
    everything = _consumer(servers, "read_uncommitted")
    deadline = time.monotonic() + _SETTLE_SECONDS
    while _ends(committed, topic) != _ends(everything, topic):
        if time.monotonic() > deadline:
            raise RuntimeError(f"A transaction on {topic} is still open after {_SETTLE_SECONDS:.0f} seconds.")
        time.sleep(0.05)
    everything.close()


def _consumer(servers: str, isolation: str) -> Consumer:
    settings = {
        "bootstrap.servers": servers,
        "group.id": f"outcome-{uuid.uuid4().hex}",
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "log_level": 0,
    }
    return Consumer(settings)


def _ends(consumer: Consumer, topic: str) -> list[int]:
    """The ends of the partitions as a consumer of this isolation level sees them."""
    return [consumer.get_watermark_offsets(TopicPartition(topic, number))[1] for number in range(PARTITIONS)]
