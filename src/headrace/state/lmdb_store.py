"""Ordered stores in LMDB: the entries of several stores in one file, read as of one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import merge
from typing import Any

import lmdb

from headrace.private_files import PRIVATE_FILE
from headrace.state.changes import Changes
from headrace.state.odd_keys import LONGEST, OddKeys
from headrace.state.overlay import NOTHING, Entry

FACTS = b"facts"
ODD = b"odd"


class LmdbReader:
    """The entries of one store in a read transaction."""

    __slots__ = ("_database", "_facts", "_get", "_has_odd", "_odd", "_prefix", "_probe", "_transaction")

    def __init__(self, transaction: Any, database: Any, facts: Any, odd: OddKeys, store: str) -> None:
        self._transaction = transaction
        self._get = transaction.get
        self._database = database
        self._facts = facts
        self._odd = odd
        self._has_odd: bool | None = None
        self._prefix = store.encode() + b"\x00"
        self._probe: Any = None
        """A cursor that finds out whether a range has anything: most searches for a key find nothing here."""

    def get(self, key: bytes) -> bytes | None:
        """The value of the key."""
        if not 0 < len(key) <= LONGEST:
            return self._odd.get(key)
        value: bytes | None = self._get(key, None, self._database)
        return value

    def range(self, low: bytes | None, high: bytes | None, *, reverse: bool = False) -> Iterator[Entry]:
        """The entries from `low` to before `high`."""
        if self._has_odd is None:
            self._has_odd = self._odd.may_exist
        if not self._has_odd and low and high is not None and not self._has_any(low, high):
            return NOTHING
        entries = self._range(low or None, high, reverse)
        if not self._has_odd:
            return entries
        return merge(entries, self._odd.range(low, high, reverse=reverse), reverse=reverse)

    def count(self, low: bytes, high: bytes) -> int:
        """How many keys there are from `low` to before `high`."""
        if self._odd.may_exist:
            return sum(1 for _ in self.range(low, high))
        count = 0
        with self._transaction.cursor(db=self._database) as cursor:
            if cursor.set_range(low) if low else cursor.first():
                for key in cursor.iternext(values=False):
                    if key >= high:
                        break
                    count += 1
        return count

    def _has_any(self, low: bytes, high: bytes) -> bool:
        if self._probe is None:
            self._probe = self._transaction.cursor(db=self._database)
        return bool(self._probe.set_range(low) and self._probe.key() < high)

    def _range(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[Entry]:
        if high == b"":
            return
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
        return entries + len(self._odd)


class LmdbStores:
    """The stores of one task in one LMDB environment."""

    def __init__(self, path: str, map_size: int) -> None:
        # Without sync a killed process loses nothing; only a machine that goes down would, and its copies are not
        # used again.
        self.environment = lmdb.open(
            path,
            map_size=map_size,
            max_dbs=1024,
            sync=False,
            metasync=False,
            writemap=False,
            subdir=True,
            lock=True,
            mode=PRIVATE_FILE,
        )
        self._facts = self._open(FACTS)
        self._odd = self._open(ODD)
        self._databases: dict[str, Any] = {}

    def reader(self, transaction: Any, store: str) -> LmdbReader:
        """The store as of the transaction."""
        odd = OddKeys(transaction, self._odd, store)
        return LmdbReader(transaction, self.database(store), self._facts, odd, store)

    def database(self, store: str) -> Any:
        """Where the store's entries are."""
        found = self._databases.get(store)
        if found is None:
            found = self._databases[store] = self._open(b"store:" + store.encode())
        return found

    def _open(self, name: bytes) -> Any:
        # Without a transaction, open_db begins one of its own, and keeps the GIL while it waits for who writes at the
        # moment: another thread, which would need the GIL to end its transaction.
        with self.environment.begin(write=True) as transaction:
            return self.environment.open_db(name, transaction)

    def apply(self, transaction: Any, changes: Changes) -> None:
        """Writes the changes."""
        for store, change in changes.items():
            for low, high in change.cleared:
                self._clear(transaction, store, low, high)
            self._write(transaction, store, change.entries)
            prefix = store.encode() + b"\x00"
            for name, fact in change.facts.items():
                transaction.put(prefix + name.encode(), fact, db=self._facts)

    def fact(self, transaction: Any, name: bytes) -> bytes | None:
        """A fact about the whole."""
        value: bytes | None = transaction.get(name, db=self._facts)
        return value

    def put_fact(self, transaction: Any, name: bytes, value: bytes) -> None:
        """Keeps a fact about the whole."""
        transaction.put(name, value, db=self._facts)

    def drop_fact(self, transaction: Any, name: bytes) -> None:
        """Removes a fact about the whole."""
        transaction.delete(name, db=self._facts)

    def drop_facts(self, transaction: Any, prefix: bytes) -> None:
        """Removes the facts whose names begin with this."""
        with transaction.cursor(db=self._facts) as cursor:
            found = cursor.set_range(prefix)
            while found and cursor.key().startswith(prefix):
                found = cursor.delete()

    def erase(self, transaction: Any, store: str) -> None:
        """Removes the entries of one store and the facts about it."""
        transaction.drop(self.database(store), delete=False)
        OddKeys(transaction, self._odd, store).erase()
        self.drop_facts(transaction, store.encode() + b"\x00")

    def clear(self, transaction: Any) -> None:
        """Removes everything."""
        for database in (*self._databases.values(), self._facts, self._odd):
            transaction.drop(database, delete=False)

    def _clear(self, transaction: Any, store: str, low: bytes, high: bytes) -> None:
        """Removes all keys from `low` to before `high`."""
        with transaction.cursor(db=self._databases[store]) as cursor:
            found = cursor.set_range(low) if low else cursor.first()
            while found and cursor.key() < high:
                found = cursor.delete()
        odd = OddKeys(transaction, self._odd, store)
        if odd.may_exist:
            for key in [key for key, _ in odd.range(low, high)]:
                odd.delete(key)

    def _write(self, transaction: Any, store: str, entries: Mapping[bytes, bytes | None]) -> None:
        odd = OddKeys(transaction, self._odd, store)
        with transaction.cursor(db=self._databases[store]) as cursor:
            put = cursor.put
            # In order, as neighbours are on one page.
            for key in sorted(entries):
                value = entries[key]
                if not 0 < len(key) <= LONGEST:
                    odd.delete(key) if value is None else odd.put(key, value)
                elif value is not None:
                    put(key, value)
                elif cursor.set_key(key):
                    cursor.delete()

    def close(self) -> None:
        """Closes the environment."""
        self.environment.close()
