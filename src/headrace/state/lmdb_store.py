"""Ordered stores in LMDB: the entries of several stores in one file, read as of one moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lmdb

from headrace.state.changes import Changes
from headrace.state.overlay import Entry

FACTS = b"facts"


class LmdbReader:
    """The entries of one store in a read transaction."""

    __slots__ = ("_database", "_facts", "_prefix", "_transaction")

    def __init__(self, transaction: Any, database: Any, facts: Any, store: str) -> None:
        self._transaction = transaction
        self._database = database
        self._facts = facts
        self._prefix = store.encode() + b"\x00"

    def get(self, key: bytes) -> bytes | None:
        """The value of the key."""
        value: bytes | None = self._transaction.get(key, db=self._database)
        return value

    def range(self, low: bytes | None, high: bytes | None, *, reverse: bool = False) -> Iterator[Entry]:
        """The entries from `low` to before `high`."""
        with self._transaction.cursor(db=self._database) as cursor:
            if not reverse:
                found = cursor.first() if low is None else cursor.set_range(low)
                for key, value in cursor.iternext() if found else ():
                    if high is not None and key >= high:
                        return
                    yield key, value
                return
            found = cursor.last()
            if high is not None and cursor.set_range(high):
                found = cursor.prev()
            for key, value in cursor.iterprev() if found else ():
                if low is not None and key < low:
                    return
                yield key, value

    def meta_get(self, name: str) -> bytes | None:
        """A fact kept beside the entries."""
        value: bytes | None = self._transaction.get(self._prefix + name.encode(), db=self._facts)
        return value

    def __len__(self) -> int:
        entries: int = self._transaction.stat(self._database)["entries"]
        return entries


class LmdbStores:
    """The stores of one task in one LMDB environment."""

    def __init__(self, path: str, map_size: int) -> None:
        # Without sync a killed process loses nothing; only a machine that goes down would, and its copies are not
        # used again.
        self.environment = lmdb.open(
            path, map_size=map_size, max_dbs=1024, sync=False, metasync=False, writemap=False, subdir=True, lock=True
        )
        self._facts = self.environment.open_db(FACTS)
        self._databases: dict[str, Any] = {}

    def reader(self, transaction: Any, store: str) -> LmdbReader:
        """The store as of the transaction."""
        return LmdbReader(transaction, self.database(store), self._facts, store)

    def database(self, store: str) -> Any:
        """Where the store's entries are."""
        found = self._databases.get(store)
        if found is None:
            found = self._databases[store] = self.environment.open_db(b"store:" + store.encode())
        return found

    def apply(self, transaction: Any, changes: Changes) -> None:
        """Writes the changes."""
        for store, change in changes.items():
            database = self._databases[store]
            put, delete = transaction.put, transaction.delete
            for key, value in sorted(change.entries.items()):
                if value is None:
                    delete(key, db=database)
                else:
                    put(key, value, db=database)
            prefix = store.encode() + b"\x00"
            for name, fact in change.facts.items():
                put(prefix + name.encode(), fact, db=self._facts)

    def fact(self, transaction: Any, name: bytes) -> bytes | None:
        """A fact about the whole."""
        value: bytes | None = transaction.get(name, db=self._facts)
        return value

    def put_fact(self, transaction: Any, name: bytes, value: bytes) -> None:
        """Keeps a fact about the whole."""
        transaction.put(name, value, db=self._facts)

    def clear(self, transaction: Any) -> None:
        """Removes everything."""
        for database in (*self._databases.values(), self._facts):
            transaction.drop(database, delete=False)

    def close(self) -> None:
        """Closes the environment."""
        self.environment.close()
