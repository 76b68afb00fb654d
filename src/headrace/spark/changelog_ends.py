"""How far the changelogs go at least, as the process knows that writes them.

A broker that stood still while another one took its place does not know of that when it goes on, and tells of an end
that is no longer the end: a store that was rebuilt up to there would lack what was committed since. So a process, when
it begins, writes a claim to each changelog and sees where it is. From then on it counts what it writes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headrace.errors import EnvironmentFailed, KafkaAway
from headrace.kafka.absence import is_away
from headrace.kafka.clients import ClientSettings
from headrace.kafka.topics import Topics
from headrace.spark.layout import task_parts
from headrace.spark.results import Outputs
from headrace.spark.tail import Place

_LAST_OFFSETS = 4
"""Behind the claim there is the marker of its transaction."""
_AT_ONCE = 1_000
_POLL_SECONDS = 0.1
MARKER = 1
"""The offset that the end of a transaction takes in each partition that it wrote to."""


class ChangelogEnds:
    """The least end of each changelog partition; none where nothing is known."""

    def __init__(self, ends: Mapping[Place, int], topics: Mapping[int, Iterable[str]], marker: int) -> None:
        """`topics` are the changelogs by sub-topology, `marker` the offsets that the end of a batch takes in each."""
        self._ends = dict(ends)
        self._marker = marker
        self._topics = {group: tuple(names) for group, names in topics.items()}

    def add(self, outputs: Outputs) -> None:
        """Takes in what was committed, all of it in one batch."""
        for place, rows in outputs.rows_by_task().items():
            if place in self._ends:
                self._ends[place] += rows + self._marker

    def of(self, tasks: Iterable[str]) -> dict[Place, int]:
        """Those of some tasks."""
        if not self._ends:
            return {}
        parts = map(task_parts, tasks)
        places = [(topic, number) for group, number in parts for topic in self._topics.get(group, ())]
        return {place: self._ends[place] for place in places if place in self._ends}


def find_claim(
    settings: ClientSettings, group: str, places: Iterable[Place], claim: bytes, seconds: float
) -> dict[Place, int]:
    """The offset behind a claim and its marker in each partition; KafkaAway where it does not show in time.

    It was never committed, so that nobody else sees it.
    """
    wanted = set(places)
    ends = Topics(settings, seconds).ends(wanted, committed=False)
    ours = {
        "group.id": group,
        "enable.auto.commit": False,
        "isolation.level": "read_uncommitted",
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 10,
    }
    consumer = Consumer({"log_level": 0, **settings.consumer(**ours)})
    found: dict[Place, int] = {}
    deadline = time.monotonic() + seconds
    try:
        consumer.assign([TopicPartition(*place, max(0, ends[place] - _LAST_OFFSETS)) for place in wanted])
        while wanted - found.keys():
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            for message in consumer.consume(_AT_ONCE, _POLL_SECONDS):
                error = message.error()
                if error is not None:
                    raise KafkaException(error)
                if message.value() == claim:
                    found[message.topic(), message.partition()] = message.offset() + 1 + MARKER
    except KafkaException as error:
        topic, number = next(iter(sorted(wanted - found.keys())))
        text = f"Partition {number} of topic {topic} cannot be read: {error.args[0].str()}"
        raise (KafkaAway(text) if is_away(error) else EnvironmentFailed(text)) from error
    finally:
        consumer.close()
    return found
