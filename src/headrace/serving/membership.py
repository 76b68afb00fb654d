"""Who is there: instances, the partitions each owns, and the one that leads, all of it as Kafka's groups have it."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headrace.kafka.access import GROUP, Grant, refused
from headrace.kafka.clients import ClientSettings

logger = logging.getLogger(__name__)

Place = tuple[str, int]
"""Topic and partition."""

_POLL_SECONDS = 0.1
_SETTINGS = {
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 1000,
    "enable.auto.commit": False,
    "auto.offset.reset": "latest",
    "topic.metadata.refresh.interval.ms": 5000,
}


def instances_group(application_id: str) -> str:
    """The group that shares out the partitions of the stores."""
    return f"{application_id}-instances"


def leadership_group(application_id: str) -> str:
    """The group whose one partition says who leads."""
    return f"{application_id}-leadership"


@dataclass(frozen=True)
class Member:
    """An instance that is there."""

    address: str
    partitions: frozenset[Place] = frozenset()


@dataclass(frozen=True)
class View:
    """Who is there, as Kafka said at a moment."""

    members: tuple[Member, ...] = ()
    leader: str | None = None
    owners: dict[Place, str] = field(default_factory=dict)

    @classmethod
    def of(cls, members: Iterable[Member], leader: str | None) -> View:
        """The view of these members."""
        known = tuple(sorted(members, key=lambda member: member.address))
        return cls(known, leader, {place: member.address for member in known for place in member.partitions})

    def owner(self, place: Place) -> str | None:
        """The instance that owns a partition."""
        return self.owners.get(place)

    def standbys(self, place: Place, count: int) -> list[str]:
        """The instances that follow a partition beside its owner: all members find the same ones.

        While nobody owns it, there is one more of them: those beside the owner it had, and beside the next one, are
        all among these.
        """
        owner = self.owner(place)
        others = [member.address for member in self.members if member.address != owner]
        wanted = count + 1 if owner is None and count else count
        return sorted(others, key=lambda address: _weight(address, place))[:wanted]


def _weight(address: str, place: Place) -> bytes:
    return hashlib.sha1(f"{address} {place[0]} {place[1]}".encode()).digest()


class GroupMember:
    """A member of a consumer group that only wants its partitions, not their records."""

    def __init__(
        self,
        settings: ClientSettings,
        group: str,
        address: str,
        topics: Iterable[str],
        on_change: Callable[[frozenset[Place]], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        """`on_failure` is called with the error where it cannot stay, such as where Kafka does not let it join."""
        self.group = group
        self._settings = settings
        self._on_failure = on_failure
        self._topics = list(topics)
        self._on_change = on_change
        self._owned: set[Place] = set()
        own = {"group.id": group, "client.id": address, **_SETTINGS}
        self._consumer = Consumer(settings.consumer(**own), logger=logger)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"headrace-{group}", daemon=True)

    @property
    def owned(self) -> frozenset[Place]:
        """The partitions this member has."""
        return frozenset(self._owned)

    def start(self) -> None:
        """Joins the group."""
        self._thread.start()

    def leave(self) -> None:
        """Leaves the group soon: its partitions go to others at once."""
        self._over.set()

    def close(self) -> None:
        """Leaves the group, and waits until it has."""
        self.leave()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        consumer = self._consumer
        try:
            consumer.subscribe(self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
            while not self._over.is_set():
                message = consumer.poll(_POLL_SECONDS)
                if message is not None and message.error() is not None:
                    self._complain(message.error())
        except Exception as error:
            logger.error("The instance cannot stay in group %s", self.group, exc_info=error)
            self._on_failure(error)
        finally:
            consumer.close()

    def _complain(self, error: KafkaError) -> None:
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise refused(self._settings, [Grant("Read", GROUP, self.group)])
        if error.fatal():
            raise KafkaException(error)
        logger.info("Kafka, in group membership: %s", error)

    def _assigned(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)
        self._owned.update((each.topic, each.partition) for each in partitions)
        self._on_change(self.owned)

    def _revoked(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self._owned.difference_update((each.topic, each.partition) for each in partitions)
        consumer.incremental_unassign(partitions)
        self._on_change(self.owned)
