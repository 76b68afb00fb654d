"""A task's working copy: the entries of its stores in a local LMDB, at the version the application has committed.

It is a cache: the changelogs hold the truth, and the version says which commit the copy belongs to. What a batch
changes is held beside the copy until the next batch says which attempt counted: only then is it applied. So a batch
that is run again finds the copy as it was before, whatever became of the first attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from headrace.errors import HeadraceError
from headrace.private_files import make_private_directory
from headrace.spark.commit_record import NOTHING
from headrace.state.changes import Changes, pack_changes, unpack_changes
from headrace.state.lmdb_store import LmdbStores
from headrace.state.overlay import OrderedReader, OverlayStore, released

_VERSION = b"\x00version"
_HELD = b"\x00held"
_MAP_SIZE = 1 << 40

Readers = Callable[[str], OrderedReader]
"""The entries of a store as they are at this moment of a rebuild."""
Read = Callable[[Readers], Iterable[Changes]]
"""Reads changes of the stores from the changelogs, some at a time."""


class StaleCopyError(HeadraceError):
    """Another attempt has changed the working copy meanwhile."""


def _nothing(stores: Readers) -> Iterable[Changes]:
    return ()


def _no_way(version: str) -> Read | None:
    return None


class _Held(msgspec.Struct, array_like=True):
    """Changes that wait to be told whether they count."""

    before: str
    changes: bytes


class WorkingCopy:
    """The entries of one task's stores at one version."""

    def __init__(self, directory: Path, stores: Iterable[str]) -> None:
        make_private_directory(directory)
        self._stores = LmdbStores(str(directory), _MAP_SIZE)
        # Processes that were killed while they read would keep the room of what they saw for ever.
        self._stores.environment.reader_check()
        self._overlays: dict[str, OverlayStore] = {}
        self._names = tuple(stores)
        self._version = NOTHING
        for store in self._names:
            self._stores.database(store)

    def bring_to(self, version: str, rebuild: Read, catch_up: Callable[[str], Read | None] = _no_way) -> bool:
        """Makes the copy stand at the version; whether it had to be read from the changelogs.

        It goes on with what is held, if that was committed. Else `catch_up` says how to go on from the version that the
        copy has, or the copy is rebuilt. All of it happens in one transaction of LMDB: whoever dies on the way leaves
        the copy as it was, and a second attempt at the same copy waits.
        """
        self._version = version
        with self._stores.environment.begin(write=True) as transaction:
            current = self._current(transaction)
            if current == version:
                return False
            held = self._held(transaction, version)
            following = self._known(held.changes) if held is not None and held.before == current else None
            if following is not None:
                self._stores.apply(transaction, following)
            else:
                read = None if version == NOTHING else catch_up(current)
                if read is None:
                    self._stores.clear(transaction)
                    read = _nothing if version == NOTHING else rebuild
                for changes in read(lambda store: self._stores.reader(transaction, store)):
                    self._stores.apply(transaction, changes)
            self._stores.drop_facts(transaction, _HELD)
            self._stores.put_fact(transaction, _VERSION, version.encode())
            return following is None and version != NOTHING

    @contextmanager
    def read(self, facts: Mapping[str, Mapping[str, bytes]]) -> Iterator[dict[str, OverlayStore]]:
        """The stores as of now with their facts, each with room for changes over it."""
        with self._stores.environment.begin() as transaction:
            self._check_version(transaction)
            self._overlays = {
                name: OverlayStore(self._stores.reader(transaction, name), dict(facts.get(name, {})))
                for name in self._names
            }
            with released(self._overlays):
                yield self._overlays

    def changes(self) -> bytes:
        """The entries that were changed since `read`."""
        return pack_changes({name: overlay.changes() for name, overlay in self._overlays.items()})

    def hold(self, token: str, before: str, changes: bytes) -> None:
        """Keeps changes until it is known whether they count: those of other attempts at the same batch too."""
        with self._stores.environment.begin(write=True) as transaction:
            self._check_version(transaction)
            held = msgspec.msgpack.encode(_Held(before, changes))
            self._stores.put_fact(transaction, _HELD + token.encode(), held)

    def close(self) -> None:
        """Closes the copy."""
        self._stores.close()

    def _check_version(self, transaction: Any) -> None:
        """An attempt at an older batch that nobody waits for any more may still run on the same copy."""
        if self._current(transaction) != self._version:
            raise StaleCopyError(f"the working copy is no longer at {self._version or 'nothing'}")

    def _current(self, transaction: Any) -> str:
        return (self._stores.fact(transaction, _VERSION) or b"").decode()

    def _held(self, transaction: Any, token: str) -> _Held | None:
        packed = self._stores.fact(transaction, _HELD + token.encode())
        return None if packed is None else msgspec.msgpack.decode(packed, type=_Held)

    def _known(self, packed: bytes) -> Changes | None:
        """The changes of the stores that the topology still has; None where another version of Headrace packed them."""
        try:
            changes = unpack_changes(packed)
        except msgspec.MsgspecError:
            return None
        return {store: change for store, change in changes.items() if store in self._names}
