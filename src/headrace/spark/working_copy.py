"""A task's working copy: its stores in a local LMDB, at the version the application has committed.

What a batch changes is held beside the copy until the next batch says which attempt counted: only then is it
applied. So a batch that is run again finds the copy as it was before, whatever became of the first attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from headrace.errors import HeadraceError
from headrace.state.changes import Changes, StoreChanges, pack_changes, unpack_changes
from headrace.state.lmdb_store import LmdbStores
from headrace.state.overlay import OverlayStore

NOTHING = ""
"""The version of a task that has never run."""

_VERSION = b"\x00version"
_HELD = b"\x00held"
_MAP_SIZE = 1 << 40


class StaleCopyError(HeadraceError):
    """The working copy is not at the version that was committed, and has to be made anew."""


def _no_way(start: str, end: str) -> Sequence[bytes] | None:
    return None


class _Held(msgspec.Struct, array_like=True):
    """Changes that wait to be told whether they count."""

    token: str
    before: str
    changes: bytes


class WorkingCopy:
    """The stores of one task at one version."""

    def __init__(self, directory: Path, stores: Iterable[str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._stores = LmdbStores(str(directory), _MAP_SIZE)
        # Processes that were killed while they read would keep the room of what they saw for ever.
        self._stores.environment.reader_check()
        self._overlays: dict[str, OverlayStore] = {}
        self._names = tuple(stores)
        self._version = NOTHING
        for store in self._names:
            self._stores.database(store)

    def bring_to(
        self, version: str, rebuild: bytes | None, way: Callable[[str, str], Sequence[bytes] | None] = _no_way
    ) -> None:
        """Makes the copy stand at the version, from what is held, by `way(current, version)`, or from the whole state.

        `way` has the changes that lead from one version to the other, if it can.
        """
        environment = self._stores.environment
        self._version = version
        with environment.begin(write=True) as transaction:
            current = (self._stores.fact(transaction, _VERSION) or b"").decode()
            if current == version:
                return
            packed = self._stores.fact(transaction, _HELD)
            held = None if packed is None else msgspec.msgpack.decode(packed, type=_Held)
            if held is not None and held.token == version and held.before == current:
                self._stores.apply(transaction, self._known(unpack_changes(held.changes)))
            elif version != NOTHING and (steps := way(current, version)) is not None:
                for changes in steps:
                    self._stores.apply(transaction, self._known(unpack_changes(changes)))
            elif version == NOTHING or rebuild is not None:
                self._stores.clear(transaction)
                if rebuild is not None:
                    self._stores.apply(transaction, self._known(unpack_changes(rebuild)))
            else:
                raise StaleCopyError(f"the working copy is at {current or 'nothing'}, not at {version}")
            self._stores.put_fact(transaction, _VERSION, version.encode())

    @contextmanager
    def read(self) -> Iterator[dict[str, OverlayStore]]:
        """The stores as of now, each with room for changes over it."""
        with self._stores.environment.begin() as transaction:
            current = (self._stores.fact(transaction, _VERSION) or b"").decode()
            if current != self._version:
                # An attempt at an older batch that nobody waits for any more may still run on the same copy.
                raise StaleCopyError(f"the working copy went from {self._version} to {current or 'nothing'}")
            self._overlays = {name: OverlayStore(self._stores.reader(transaction, name)) for name in self._names}
            yield self._overlays

    def changes(self) -> bytes:
        """What was changed since `read`."""
        return pack_changes(
            {name: StoreChanges(overlay.changes(), overlay.facts) for name, overlay in self._overlays.items()}
        )

    def hold(self, token: str, before: str, changes: bytes) -> None:
        """Keeps changes until it is known whether they count."""
        with self._stores.environment.begin(write=True) as transaction:
            held = msgspec.msgpack.encode(_Held(token, before, changes))
            self._stores.put_fact(transaction, _HELD, held)

    def close(self) -> None:
        """Closes the copy."""
        self._stores.close()

    def _known(self, changes: Changes) -> Changes:
        """The changes of the stores that the topology still has."""
        return {store: change for store, change in changes.items() if store in self._names}
