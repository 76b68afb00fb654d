"""Copies of changelog partitions on this instance's disk, each at an offset of its topic."""

from __future__ import annotations

import fcntl
import logging
import struct
import threading
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from headrace.clock import clock
from headrace.errors import EnvironmentFailed
from headrace.private_files import make_private_directory, open_private
from headrace.serving.catalog import ServedStore
from headrace.state.boot import boot_name, remove_earlier_boots
from headrace.state.environment import StoreEnvironment
from headrace.state.lmdb_store import LmdbStores
from headrace.state.open import open_store
from headrace.state.overlay import OverlayStore
from headrace.state.rebuild import ChangelogRecord, of_bytes, rebuilt_changes

logger = logging.getLogger(__name__)

_MAP_SIZE = 1 << 40
_STATE = struct.Struct(">q?q")
_KEEP_SECONDS = 600.0
"""How long a copy that nobody follows any more stays on disk."""
_KEEP_STATE_MS = 60_000
"""How often it is noted that a copy is still up to date."""
_LEAST_FOLLOWED_MS = 60_000
"""A copy that is followed may be behind for so long, whatever the topic's settings."""


class PartitionId(NamedTuple):
    """A partition of a store."""

    store: str
    partition: int

    def __str__(self) -> str:
        return f"{self.store}/{self.partition}"


class CopyState(NamedTuple):
    """How far a copy is."""

    position: int = 0
    is_whole: bool = False
    complete_at: int = 0
    """The wall clock in milliseconds up to which it has seen every deletion: when it began, or was last up to date."""


class CopyClosed(Exception):
    """The instance has closed its copies."""


class CopyFiles:
    """The files of all copies, which are closed when nobody reads them any more."""

    def __init__(self, path: Path) -> None:
        make_private_directory(path)
        self._lock = _lock_directory(path)
        self.stores = LmdbStores(str(path), _MAP_SIZE)
        self._users = 0
        self._is_closed = False
        self._changed = threading.Condition()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keeps the files open meanwhile."""
        with self._changed:
            if self._is_closed:
                raise CopyClosed
            self._users += 1
        try:
            yield
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    @contextmanager
    def snapshot(self) -> Iterator[Any]:
        """A transaction that sees all copies as of one moment. CopyClosed once the instance ends."""
        with self.in_use(), self.stores.environment.begin() as transaction:
            yield transaction

    def close(self) -> None:
        """Closes the files, after those who read them."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: self._users == 0)
        self.stores.close()
        self._lock.close()


class PartitionCopy:
    """The copy of one partition: what is in it and how fresh it is."""

    def __init__(self, stores: LmdbStores, store: ServedStore, partition: int, state: CopyState) -> None:
        self.id = PartitionId(store.name, partition)
        self.store = store
        self.position = state.position
        """The next offset of the topic that is not in the copy yet."""
        self.end: int | None = None
        """The end of the topic as it was last seen, None before."""
        self.ready = False
        """Whether it has caught up since it is followed."""
        self.is_whole = state.is_whole
        """Whether it has caught up ever: what it does not have, was not there then."""
        self.complete_at = state.complete_at or wall_clock()
        """Up to which moment (wall clock) it has seen every deletion."""
        self.went_back = False
        """Whether the topic went back behind what the copy has of it: it is another one, and the copy is of no use."""
        self._lock = threading.Lock()
        """For what the follower and the watcher of an instance both set: whether it is followed, and up to date."""
        self.is_gone = False
        """Whether its content was removed: what is read then is not what it had."""
        self.followed = False
        self.followed_at = 0.0
        """Since when it is followed, by the clock of `headrace.clock`."""
        self.caught_up_at: float | None = None
        """The latest moment whose content the copy has for certain, by the same clock."""
        self.left_at = clock()
        """Since when nobody follows it."""
        self._looked: tuple[int, float] | None = None
        """The end of the topic and the moment when Kafka was asked for it, by the same clock."""
        self._stores = stores
        self._name = str(self.id)
        self._spec = of_bytes(store.spec)
        self.restored = 0
        """How many records were taken over since it is followed."""

    @property
    def left(self) -> int | None:
        """How many offsets the copy is behind; None where that is not known yet."""
        return None if self.end is None else max(0, self.end - self.position)

    def staleness_ms(self) -> int | None:
        """How old the copy's content may be at most; None before it has caught up for the first time."""
        return None if self.caught_up_at is None else max(0, int((clock() - self.caught_up_at) * 1000))

    def begin(self) -> None:
        """Is followed from now on."""
        with self._lock:
            self.followed, self.restored = True, 0
            self.followed_at = clock()

    def leave(self) -> None:
        """Is no longer followed."""
        with self._lock:
            self.followed = self.ready = False
            self.left_at = clock()

    def go_back(self) -> None:
        """Takes in that the topic is another one."""
        with self._lock:
            self.went_back, self.ready = True, False

    def saw_end(self, end: int, at: float) -> None:
        """Takes in that the topic ended at an offset at a moment; the copy may get there later."""
        with self._lock:
            self.end = end
            self._looked = (end, at)
            self._catch_up(end, at)

    def read_to_end(self, end: int) -> None:
        """Takes in that the reader came to the end: when Kafka told it so, it does not say, but since it follows."""
        with self._lock:
            self.end = end
            self._catch_up(end, self.followed_at)

    def moved_on(self) -> None:
        """Takes in that it has moved on, perhaps to the end that was last seen."""
        with self._lock:
            if self._looked is not None:
                self._catch_up(*self._looked)

    def _catch_up(self, end: int, at: float) -> None:
        """Notes that it has all that there was at a moment, if it has reached the end of that moment."""
        if not self.followed or self.position < end or self.went_back:
            return
        # What was asked before it was followed tells nothing of what it has missed since.
        if at >= self.followed_at:
            self.ready = self.is_whole = True
        if self.caught_up_at is None or at >= self.caught_up_at:
            self.caught_up_at = at
            self.complete_at = wall_clock() - int((clock() - at) * 1000)

    def may_lack_deletions(self, kept_ms: int) -> bool:
        """Whether deletions may have come and gone unseen, where Kafka keeps them for so long."""
        return _is_too_old(self.complete_at, max(kept_ms // 2, _LEAST_FOLLOWED_MS) if self.followed else kept_ms // 2)

    def take(self, transaction: Any, records: Sequence[ChangelogRecord], position: int) -> None:
        """Takes over records and stands at the position, within a write transaction."""
        changes = rebuilt_changes(self._spec, self._stores.reader(transaction, self._name), records)
        self._stores.apply(transaction, {self._name: changes})
        self._stores.put_fact(transaction, _state_name(self._name), self.packed_state(position))
        self.restored += len(records)

    def packed_state(self, position: int) -> bytes:
        """How far it is, as it is kept beside it."""
        return _STATE.pack(position, self.is_whole, self.complete_at)

    def store_in(self, snapshot: Any) -> Any:
        """The store as a snapshot has it, unless the copy `is_gone` by then; its keys and values are bytes."""
        return open_store(self._spec, OverlayStore(self._stores.reader(snapshot, self._name)), StoreEnvironment())


class Copies:
    """All copies of an instance, in one LMDB."""

    def __init__(self, directory: Path, topic_ids: Mapping[str, str], deletions_kept_ms: Mapping[str, int]) -> None:
        """`deletions_kept_ms` says how long each topic keeps the records that delete a key."""
        remove_earlier_boots(directory)
        self._files = CopyFiles(directory / boot_name())
        self._stores = self._files.stores
        self._topic_ids = dict(topic_ids)
        self._deletions_kept_ms = deletions_kept_ms
        self._copies: dict[PartitionId, PartitionCopy] = {}
        self._noted: dict[PartitionId, int] = {}
        """By copy that is whole, the moment that was last noted for it."""
        self._lock = threading.Lock()

    def open(self, store: ServedStore, partition: int) -> PartitionCopy:
        """The copy of a partition, from where it was left; a topic that was made anew begins anew."""
        found = PartitionId(store.name, partition)
        with self._lock:
            copy = self._copies.get(found)
            if copy is None:
                copy = self._copies[found] = PartitionCopy(self._stores, store, partition, self._load(store, found))
        return copy

    def get(self, store: str, partition: int) -> PartitionCopy | None:
        """The copy of a partition, if there is one."""
        return self._copies.get(PartitionId(store, partition))

    def snapshot(self) -> AbstractContextManager[Any]:
        """All copies as of one moment, to read them with `store_in`. CopyClosed once the instance ends."""
        return self._files.snapshot()

    def __iter__(self) -> Iterator[PartitionCopy]:
        return iter(list(self._copies.values()))

    def take(self, found: Mapping[PartitionId, tuple[list[ChangelogRecord], int]]) -> None:
        """Takes over what was read of several partitions, all of it or nothing."""
        with self._stores.environment.begin(write=True) as transaction:
            for each, (records, position) in found.items():
                self._copies[each].take(transaction, records, position)
        for each, (_, position) in found.items():
            self._copies[each].position = position

    def keep_states(self) -> None:
        """Notes which copies have caught up, and every minute when, so that it is known after a restart."""
        new = [
            copy
            for copy in self
            if copy.is_whole and copy.complete_at - self._noted.get(copy.id, -_KEEP_STATE_MS) >= _KEEP_STATE_MS
        ]
        if new:
            with self._stores.environment.begin(write=True) as transaction:
                for copy in new:
                    self._stores.put_fact(transaction, _state_name(str(copy.id)), copy.packed_state(copy.position))
            self._noted.update((copy.id, copy.complete_at) for copy in new)

    def forget_left(self, wanted: Container[PartitionId]) -> None:
        """Removes the copies that nobody has followed for a while, nor is about to."""
        now = clock()
        for copy in self:
            if copy.id not in wanted and not copy.followed and now - copy.left_at > _KEEP_SECONDS:
                self.forget(copy.id)

    def forget(self, found: PartitionId) -> None:
        """Removes a copy that nobody follows."""
        with self._lock, self._stores.environment.begin(write=True) as transaction:
            copy = self._copies.pop(found, None)
            if copy is not None:
                copy.is_gone = True
            self._noted.pop(found, None)
            self._erase(transaction, str(found))

    def renew(self, topic_ids: Mapping[str, str]) -> list[PartitionCopy]:
        """Takes in which topics there are now; the copies of those that were made anew."""
        with self._lock:
            gone = [
                copy
                for copy in self._copies.values()
                if topic_ids.get(copy.store.topic, "") != self._topic_ids.get(copy.store.topic, "")
            ]
            self._topic_ids = dict(topic_ids)
        return gone

    def lacking_deletions(self) -> list[PartitionCopy]:
        """The copies that have been behind for so long that deletions may have come and gone unseen."""
        kept = self._deletions_kept_ms
        return [copy for copy in self if copy.store.topic in kept and copy.may_lack_deletions(kept[copy.store.topic])]

    def close(self) -> None:
        """Closes the files."""
        self._files.close()

    def _load(self, store: ServedStore, found: PartitionId) -> CopyState:
        name = str(found)
        self._stores.database(name)
        topic_id = self._topic_ids.get(store.topic, "").encode()
        with self._stores.environment.begin(write=True) as transaction:
            if self._stores.fact(transaction, _topic_name(name)) != topic_id:
                self._erase(transaction, name)
                self._stores.put_fact(transaction, _topic_name(name), topic_id)
            packed = self._stores.fact(transaction, _state_name(name))
            if packed is None or len(packed) != _STATE.size:
                return CopyState()
            state = CopyState(*_STATE.unpack(packed))
            kept_ms = self._deletions_kept_ms.get(store.topic)
            if kept_ms is not None and _is_too_old(state.complete_at, kept_ms // 2):
                logger.info("The copy of %s is too old to tell what was deleted since: it begins anew", found)
                self._erase(transaction, name)
                self._stores.put_fact(transaction, _topic_name(name), topic_id)
                return CopyState()
            return state

    def _erase(self, transaction: Any, name: str) -> None:
        self._stores.erase(transaction, name)
        for fact in (_state_name(name), _topic_name(name)):
            self._stores.drop_fact(transaction, fact)


def wall_clock() -> int:
    """Milliseconds since 1970: unlike the monotonic clock, it goes on while a machine is suspended or off."""
    return int(time.time() * 1000)


def _is_too_old(complete_at: int, limit_ms: int) -> bool:
    """Whether a moment is further away than this; one in the future means that the clock was set, and tells nothing."""
    age = wall_clock() - complete_at
    return age > limit_ms or age < -_LEAST_FOLLOWED_MS


def _lock_directory(path: Path) -> IO[str]:
    """Has no other process use the directory."""
    file = open_private(path / "in-use", "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise EnvironmentFailed(
            f"Another process uses {path}: every instance needs an address of its own (--port, --advertise)."
        ) from None
    return file


def _state_name(name: str) -> bytes:
    return b"\x00state:" + name.encode()


def _topic_name(name: str) -> bytes:
    return b"\x00topic:" + name.encode()
