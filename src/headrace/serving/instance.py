"""One instance: the copies it keeps, the partitions it owns, and what it knows of the others."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import (
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from headrace.clock import clock
from headrace.errors import HeadraceError, StreamsError
from headrace.full_disk import disk_full
from headrace.kafka.clients import ClientSettings
from headrace.kafka.internal_topics import commits_topic
from headrace.kafka.topics import Topics
from headrace.serving.catalog import ServedStore
from headrace.serving.config import is_address
from headrace.serving.copies import Copies, PartitionCopy, PartitionId
from headrace.serving.follower import Follower
from headrace.serving.membership import (
    GroupMember,
    Member,
    Place,
    View,
    instances_group,
    leadership_group,
)
from headrace.serving.moves import Moves

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.4
_ASK_SECONDS = 10.0
_TOPICS_SECONDS = 5.0
_READERS = 8
_SILENCE_SECONDS = 5.0
"""After how long Kafka is said not to answer."""
_LINGER_SECONDS = 30.0
"""How long a partition is still followed that went to another owner or standby: these have to restore it first."""


@dataclass(frozen=True)
class Restoring:
    """A copy that is not up to date yet."""

    id: PartitionId
    records_left: int | None
    eta_seconds: float | None


class Instance:
    """Keeps copies of its share of the stores; without an address it is alone and keeps all of them."""

    def __init__(
        self,
        stores: Mapping[str, ServedStore],
        settings: ClientSettings,
        application_id: str,
        directory: Path,
        *,
        address: str | None = None,
        standbys: int = 0,
        leads: bool = False,
        on_leadership: Callable[[bool], None] = lambda leader: None,
        on_failure: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        """`on_failure` is called where it cannot go on, such as where Kafka does not let it join the others."""
        self.address = address
        self.stores = stores
        self.failure: Exception | None = None
        self.view = View()
        """Who is there, as of less than a second ago."""
        self._settings = settings
        self._application_id = application_id
        self._directory = directory
        self._standbys = standbys
        self._leads = leads
        self._on_leadership = on_leadership
        self._on_failure = on_failure
        self._owned: frozenset[Place] = frozenset()
        self._assigned = threading.Event()
        self._knows_owners = False
        """Whether it has seen that it is among the others, and every partition in somebody's hands."""
        self._left: dict[Place, float] = {}
        self._stood_by: frozenset[Place] = frozenset()
        self._previous_holders: dict[Place, dict[str, float]] = {}
        """By partition, who owned it or stood by for it before, and until when (monotonic)."""
        self._outdated: set[PartitionId] = set()
        """The copies of topics that were made anew, until they are gone."""
        self._counted: dict[str, int] = {}
        """By changelog whose number of partitions was changed, the new one, once it was reported."""
        self._topics_at = 0.0
        self._answered_at = time.monotonic()
        """When Kafka was last heard of."""
        self._lock = threading.Lock()
        self.moves = Moves()
        """Told of whenever copies have moved on, or it was seen how far they are."""
        self.readers = ThreadPoolExecutor(_READERS, "headrace-reader")
        """Where what takes long is read."""
        self._over = threading.Event()
        self._changed = threading.Event()
        self._members: list[GroupMember] = []
        self._watcher = threading.Thread(target=self._watch, name="headrace-membership", daemon=True)

    # --- life --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Joins the others and begins to follow; answers at once."""
        self._admin = self._new_admin()
        topics = self._describe()
        self._topics_at = time.monotonic()
        self._partitions = {topic: len(each.partitions) for topic, each in topics.items()}
        ids = {topic: str(each.topic_id) for topic, each in topics.items()}
        self._copies = Copies(self._directory, ids, Topics(self._settings).deletions_kept_ms(topics))
        self._follower = Follower(self._settings, self._application_id, self._copies, self.moves, self._lost_copies)
        self._by_topic = {store.topic: store for store in self.stores.values()}
        if self.address is None:
            self._take_over(frozenset(self._places(is_global=False)))
        else:
            self._join(self.address)
        self._follow()
        self._follower.start()
        self._watcher.start()

    def close(self) -> None:
        """Leaves the others and stops following."""
        self._over.set()
        self._changed.set()
        for member in self._members:
            member.close()
        if self._watcher.ident is not None:
            self._watcher.join()
            self._follower.close()
            self._copies.close()
        self.readers.shutdown()
        if self.address is None:
            shutil.rmtree(self._directory, ignore_errors=True)

    # --- what it has -------------------------------------------------------------------------------------------

    def partitions(self, store: str) -> int:
        """How many partitions the store has."""
        return self._partitions[self.stores[store].topic]

    def copy(self, store: str, partition: int) -> PartitionCopy | None:
        """The copy of a partition, if this instance has one, whatever its state."""
        return self._copies.get(store, partition)

    def snapshot(self) -> AbstractContextManager[Any]:
        """All copies as of one moment, to read them with `store_in`. CopyClosed once the instance ends."""
        return self._copies.snapshot()

    def owned(self, store: str) -> list[int]:
        """The partitions of the store that this instance owns; all of them where the store is global."""
        topic = self.stores[store].topic
        if self.stores[store].is_global:
            return list(range(self._partitions[topic]))
        return sorted(partition for name, partition in self._owned if name == topic)

    def candidates(self, store: str, partition: int) -> list[str]:
        """The addresses to ask for a partition: its owner, then its standbys, then those who had it before."""
        place = (self.stores[store].topic, partition)
        view = self.view
        owner = view.owner(place)
        found = [] if owner is None else [owner]
        found += view.standbys(place, self._standbys)
        if owner is None and self.address is not None and self._has(place):
            # Kafka is about to share it out again, such as after it was away: it is still followed here.
            found.append(self.address)
        if previous := self._previous_holders.get(place):
            present = {member.address for member in view.members}
            found += sorted(present & previous.keys(), key=lambda address: -previous[address])
        return list(dict.fromkeys(found))

    @property
    def is_ready(self) -> bool:
        """Whether it has its share of the partitions, has caught up with all of them, and knows who has the rest."""
        has_joined = self._has_joined and self.failure is None
        return has_joined and all(self._has(place) for place in self._share())

    @property
    def state(self) -> str:
        """STARTING until it has its share, RESTORING until the copies have caught up, then RUNNING; or FAILED."""
        if self.failure is not None:
            return "FAILED"
        if not self._has_joined:
            return "STARTING"
        return "RUNNING" if self.is_ready else "RESTORING"

    @property
    def _has_joined(self) -> bool:
        # The first share that Kafka gives to a member may be none: others have to let go of theirs.
        return self._assigned.is_set() and (self._knows_owners or self.address is None)

    @property
    def trouble(self) -> str | None:
        """What keeps the copies from being up to date; None where nothing does."""
        if not self.stores or time.monotonic() - self._answered_at < _SILENCE_SECONDS:
            return None
        return f"waiting for Kafka at {self._settings.bootstrap_servers}"

    def restoring(self) -> list[Restoring]:
        """The copies that are not up to date yet, with what is left."""
        now = clock()
        found = []
        for copy in self._copies:
            if copy.followed and not copy.ready:
                seconds = now - copy.followed_at
                rate = copy.restored / seconds if seconds > 0 else 0.0
                eta = None if copy.left is None or not rate else copy.left / rate
                found.append(Restoring(copy.id, copy.left, eta))
        return found

    def lag(self) -> int:
        """How many offsets the copies it owns are behind."""
        return sum(copy.left or 0 for copy in self._copies if self._is_own(copy))

    def standing_by(self, view: View) -> dict[str, dict[str, list[int]]]:
        """By address and store, the partitions that an instance stands by for: all with the same view find the same.

        What an instance still follows because it has just given it away is not among them.
        """
        found: dict[str, dict[str, list[int]]] = {}
        for place in self._places(is_global=False):
            for address in view.standbys(place, self._standbys):
                found.setdefault(address, {}).setdefault(self._by_topic[place[0]].name, []).append(place[1])
        return found

    def await_ready(self, timeout: float) -> bool:
        """Waits until it is ready; answers whether it is."""
        deadline = time.monotonic() + timeout
        if not self._assigned.wait(timeout):
            return False
        return self.moves.wait_for(lambda: self.is_ready, max(0.0, deadline - time.monotonic()))

    # --- membership --------------------------------------------------------------------------------------------

    def _join(self, address: str) -> None:
        topics = sorted({store.topic for store in self.stores.values() if not store.is_global})
        if topics:
            group = instances_group(self._application_id)
            self._members.append(
                GroupMember(self._settings, group, address, topics, self._take_over, self._lost_membership)
            )
        else:
            self._assigned.set()
        if self._leads:
            group = leadership_group(self._application_id)
            topic = commits_topic(self._application_id)
            self._members.append(
                GroupMember(
                    self._settings,
                    group,
                    address,
                    [topic],
                    lambda owned: self._on_leadership(bool(owned)),
                    self._lost_membership,
                )
            )
        for member in self._members:
            member.start()

    def _take_over(self, owned: frozenset[Place]) -> None:
        now = time.monotonic()
        with self._lock:
            self._left.update(dict.fromkeys(self._owned - owned, now))
            for place in owned:
                self._left.pop(place, None)
            self._owned = owned
        self._assigned.set()
        self._changed.set()

    def _follow(self) -> None:
        """Follows what it owns, what it stands by for, what it has just given away, and the global tables."""
        # While Kafka does not answer, nobody else can have what this instance has lost: time stands still.
        now = self._answered_at
        stands_by = self._stands_by()
        with self._lock:
            self._left.update(dict.fromkeys(self._stood_by - stands_by - self._owned, now))
            self._stood_by = stands_by
            self._left = {place: left for place, left in self._left.items() if now - left < _LINGER_SECONDS}
            wanted = {*self._owned, *self._left, *stands_by, *self._places(is_global=True)}
        known = [
            (topic, partition)
            for topic, partition in sorted(wanted)
            if self._id(topic, partition) not in self._outdated
        ]
        copies = [self._copies.open(self._by_topic[topic], partition) for topic, partition in known]
        self._follower.follow(copies)
        self._copies.forget_left({copy.id for copy in copies})

    def _stands_by(self) -> frozenset[Place]:
        """What it stands by for."""
        if self.address is None or not self._standbys:
            return frozenset()
        places = self._places(is_global=False)
        return frozenset(place for place in places if self.address in self.view.standbys(place, self._standbys))

    def _id(self, topic: str, partition: int) -> PartitionId:
        return PartitionId(self._by_topic[topic].name, partition)

    def _places(self, *, is_global: bool) -> list[Place]:
        return [
            (store.topic, partition)
            for store in self.stores.values()
            if store.is_global is is_global
            for partition in range(self._partitions[store.topic])
        ]

    def _share(self) -> list[Place]:
        """What it has to answer for: what it owns, and all of the global tables."""
        return [*self._owned, *self._places(is_global=True)]

    def _has(self, place: Place) -> bool:
        copy = self._copies.get(self._by_topic[place[0]].name, place[1])
        return copy is not None and copy.ready

    def _is_own(self, copy: PartitionCopy) -> bool:
        return copy.store.is_global or (copy.store.topic, copy.id.partition) in self._owned

    # --- looking around ----------------------------------------------------------------------------------------

    def _watch(self) -> None:
        looks = (self._see_members, self._forget_outdated, self._follow, self._see_ends, self._see_topics)
        failing: set[str] = set()
        while not self._over.is_set():
            for look in looks:
                try:
                    look()
                    failing.discard(look.__name__)
                except Exception as error:
                    if look.__name__ not in failing:
                        logger.warning("The instance does not see how things are (%s): %s", look.__name__, error)
                    failing.add(look.__name__)
                    if _is_timeout(error):
                        self._ask_anew()
            self._changed.wait(_LOOK_SECONDS)
            self._changed.clear()

    def _ask_anew(self) -> None:
        """Makes a new client: one that was there while Kafka was away may never get an answer again."""
        old, self._admin = [self._admin], self._new_admin()
        # To let go of a client is to wait for it.
        threading.Thread(target=old.clear, name="headrace-farewell", daemon=True).start()

    def _new_admin(self) -> AdminClient:
        return AdminClient(self._settings.admin(), logger=logger)

    def _see_members(self) -> None:
        if self.address is not None:
            view = self._ask_groups()
            self._heard()
            self._see(view)

    def _heard(self) -> None:
        """Takes in that Kafka has answered."""
        now = time.monotonic()
        if now - self._answered_at > _SILENCE_SECONDS:
            logger.warning("Kafka answers again after %.0f s.", now - self._answered_at)
            with self._lock:
                # What was lost meanwhile is most likely given back.
                self._left = dict.fromkeys(self._left, now)
        self._answered_at = now

    def _see(self, view: View) -> None:
        now = time.monotonic()
        if view != self.view:
            for place in self._places(is_global=False):
                for address in self._holders(self.view, place) - self._holders(view, place):
                    self._previous_holders.setdefault(place, {})[address] = now
        self._previous_holders = {
            place: recent
            for place, holders in self._previous_holders.items()
            if (recent := {address: left for address, left in holders.items() if now - left < _LINGER_SECONDS})
        }
        self.view = view
        if not self._knows_owners:
            shared = self._places(is_global=False)
            is_there = not shared or any(member.address == self.address for member in view.members)
            self._knows_owners = is_there and all(view.owner(place) is not None for place in shared)

    def _holders(self, view: View, place: Place) -> set[str]:
        """Those who have a partition by what Kafka says: its owner and its standbys."""
        owner = view.owner(place)
        return {*view.standbys(place, self._standbys), *([] if owner is None else [owner])}

    def _ask_groups(self) -> View:
        instances, leadership = instances_group(self._application_id), leadership_group(self._application_id)
        futures = self._admin.describe_consumer_groups([instances, leadership], request_timeout=_ASK_SECONDS)
        members = _members(futures[instances], {member.address: member.partitions for member in self.view.members})
        leading = frozenset({(commits_topic(self._application_id), 0)})
        leaders = _members(futures[leadership], {} if self.view.leader is None else {self.view.leader: leading})
        leader = next((member.address for member in leaders if member.partitions), None)
        known = {member.address for member in members}
        # With no store to share out, an instance is a member of the other group alone.
        others = [Member(member.address) for member in leaders if member.address not in known]
        return View.of([*members, *others], leader)

    def _see_ends(self) -> None:
        copies = {(copy.store.topic, copy.id.partition): copy for copy in self._copies if copy.followed}
        if not copies:
            return
        at = clock()
        futures = self._admin.list_offsets(
            {TopicPartition(*place): OffsetSpec.latest() for place in copies},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_ASK_SECONDS,
        )
        for each, future in futures.items():
            copy = copies[(each.topic, each.partition)]
            try:
                end = future.result().offset
            except KafkaException as error:
                logger.info("Kafka does not say where %s/%s ends: %s", each.topic, each.partition, error)
                end = -1
            if end >= 0:
                self._heard()
                copy.saw_end(end, at)
        self.moves.tell()

    def _see_topics(self) -> None:
        """Notices topics that were made anew, and new partitions of global tables."""
        now = time.monotonic()
        for copy in self._copies.lacking_deletions():
            if copy.id not in self._outdated:
                logger.warning("The copy %s was behind for too long to tell what was deleted: it begins anew", copy.id)
                self._outdated.add(copy.id)
        gone_back = [copy for copy in self._copies if copy.went_back and copy.id not in self._outdated]
        if now - self._topics_at < _TOPICS_SECONDS and not gone_back:
            return
        self._topics_at = now
        topics = self._describe()
        for topic, each in topics.items():
            self._see_partitions(topic, len(each.partitions))
        renewed = self._copies.renew({topic: str(each.topic_id) for topic, each in topics.items()})
        for copy in {copy.id: copy for copy in (*renewed, *gone_back)}.values():
            logger.warning("Topic %s was made anew: its copy %s begins anew", copy.store.topic, copy.id)
            self._outdated.add(copy.id)

    def _see_partitions(self, topic: str, count: int) -> None:
        """Takes in how many partitions a topic has; a changelog keeps its number, as tasks write as they did."""
        if self._by_topic[topic].is_global:
            self._partitions[topic] = count
        elif count != self._partitions[topic] and self._counted.get(topic) != count:
            self._counted[topic] = count
            logger.warning(
                "Topic %s has %d partitions and had %d when the application was started. Answers stay right, but the "
                "next start is refused: internal topics must not be changed.",
                *(topic, count, self._partitions[topic]),
            )

    def _forget_outdated(self) -> None:
        for each in list(self._outdated):
            copy = self._copies.get(*each)
            if copy is None or not copy.followed:
                self._copies.forget(each)
                self._outdated.discard(each)

    def _describe(self) -> dict[str, Any]:
        names = sorted({store.topic for store in self.stores.values()})
        if not names:
            return {}
        futures = self._admin.describe_topics(TopicCollection(names), request_timeout=_ASK_SECONDS)
        return {name: future.result() for name, future in futures.items()}

    def _lost_membership(self, error: Exception) -> None:
        self._fail(f"The instance can no longer be a member of its groups in Kafka: {error}", error)

    def _lost_copies(self, error: Exception) -> None:
        self._fail(f"Copies of the stores can no longer be kept up to date: {error}", error)

    def _fail(self, reason: str, error: Exception) -> None:
        failure = error if isinstance(error, HeadraceError) else disk_full(error, self._directory)
        if failure is None:
            failure = StreamsError(reason)
            failure.__cause__ = error
        self.failure = failure
        # Others can do better with its partitions, and with the pipeline.
        for member in self._members:
            member.leave()
        self._on_failure(failure)


def _is_timeout(error: Exception) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() == KafkaError._TIMED_OUT


def _members(future: Any, known: Mapping[str, frozenset[Place]]) -> list[Member]:
    """The members of a group; while it shares out partitions, Kafka does not tell whose they are: as was known."""
    try:
        group = future.result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return []
        raise
    if group.state == ConsumerGroupState.DEAD:
        return []
    # Who has come into the group from outside, and says no address, cannot be asked for anything.
    instances = [member for member in group.members if is_address(member.client_id)]
    if group.state != ConsumerGroupState.STABLE:
        return [Member(member.client_id, known.get(member.client_id, frozenset())) for member in instances]
    return [
        Member(
            member.client_id,
            frozenset((each.topic, each.partition) for each in member.assignment.topic_partitions),
        )
        for member in instances
    ]
