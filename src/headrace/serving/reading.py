"""Reads stores of the whole application: what REST and Python programs ask, in terms of keys, windows and pages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec.structs import replace

from headrace.duration import MAX_MILLIS
from headrace.errors import StoreError, UnknownStoreError
from headrace.serving.catalog import KEY_VALUE_KINDS, WINDOW_KINDS, ServedStore
from headrace.serving.config import MAX_ANSWER_BYTES
from headrace.serving.instance import Instance
from headrace.serving.queries import (
    COUNT,
    GET,
    LOCATE,
    MARKED_BYTES,
    SCAN,
    SESSIONS,
    TIMES,
    WINDOWS,
    Answer,
    Query,
    Refusal,
    Row,
    digest_of,
)
from headrace.serving.routing import Router
from headrace.state.port import after_prefix
from headrace.topology.stores import StoreKind


class UnavailableError(StoreError):
    """The partition of a key has nobody to answer for it at the moment, or nobody fresh enough."""

    def __init__(self, store: str, refused: Mapping[int, Refusal]) -> None:
        self.store = store
        self.refused = dict(refused)
        listed = "; ".join(f"partition {partition}: {refusal.detail}" for partition, refusal in refused.items())
        super().__init__(f"Store {store} cannot answer now: {listed}")


class DemandError(StoreError):
    """What is demanded beside the content cannot be."""


class CursorError(StoreError):
    """A cursor is not one that an earlier page gave."""


@dataclass(frozen=True)
class Demands:
    """What a reader asks for beside the content."""

    allow_stale: bool = False
    """Takes what a copy has that is not up to date."""
    min_position: Mapping[int, int] = field(default_factory=dict)
    """By partition, the changelog offset that the answer must have reached."""
    max_staleness_ms: int | None = None
    timeout: float = 5.0
    """Seconds for the whole of it."""
    local: bool = False
    """Asks this instance alone: what it does not have, nobody answers for."""


ANY = Demands()
_PLACE_LENGTHS = {WINDOWS: 12, SESSIONS: 16}
_MARK = "."
"""Between the parts of a cursor of a long place."""


@dataclass(frozen=True)
class Page:
    """Rows in order, where to go on, and how fresh and how complete they are."""

    rows: list[Row]
    cursor: str | None
    positions: dict[int, int]
    staleness_ms: int | None
    missing: dict[int, Refusal]
    """The partitions that nobody answered for."""

    @property
    def is_complete(self) -> bool:
        """Whether all partitions are in it."""
        return not self.missing


class Reader:
    """Asks stores by name."""

    def __init__(self, instance: Instance, router: Router, most_bytes: int = MAX_ANSWER_BYTES) -> None:
        self._instance = instance
        self._router = router
        self.most_bytes = most_bytes
        """About how many bytes of keys and values one answer has at most."""

    def store(self, name: str) -> ServedStore:
        """The store of that name."""
        found = self._instance.stores.get(name)
        if found is None:
            known = ", ".join(sorted(self._instance.stores)) or "none"
            raise UnknownStoreError(f"There is no store {name} that can be asked. The stores: {known}.")
        return found

    async def get(self, name: str, key: bytes, demands: Demands = ANY, as_of: int | None = None) -> Answer:
        """The value of a key: one row or none."""
        self._need(name, KEY_VALUE_KINDS, "a value by key")
        if as_of is not None:
            self._need(name, {StoreKind.VERSIONED}, "the value at an earlier time")
        query = Query(kind=GET, store=name, partitions=self._partitions(name, [key]), keys=(key,), as_of=as_of)
        answer = await self._ask_fully(replace(query, **self._of(name, demands)), demands)
        answer.rows = _latest(answer.rows)
        return answer

    async def get_many(self, name: str, keys: Iterable[bytes], demands: Demands = ANY) -> Answer:
        """The values of several keys: a row for each that has one."""
        self._need(name, KEY_VALUE_KINDS, "values by key")
        wanted = tuple(dict.fromkeys(keys))
        query = Query(kind=GET, store=name, partitions=self._partitions(name, wanted), keys=wanted)
        # A key of a global table may be in several partitions, if its producers do not agree where it belongs.
        limit = max(1, len(wanted) * (self._instance.partitions(name) if self.store(name).is_global else 1))
        answer = await self._ask_fully(replace(query, limit=limit, **self._of(name, demands)), demands)
        if answer.cut is not None:
            raise DemandError(
                f"The values of these keys are too much for one answer of {self.most_bytes} bytes: ask for fewer."
            )
        answer.rows = _latest(answer.rows)
        return answer

    async def scan(
        self,
        name: str,
        *,
        low: bytes | None = None,
        high: bytes | None = None,
        prefix: bytes | None = None,
        limit: int,
        cursor: str | None = None,
        demands: Demands = ANY,
    ) -> Page:
        """Keys in the order of their bytes: all of them, those from `low` to `high`, or those with a prefix."""
        self._need(name, KEY_VALUE_KINDS - {StoreKind.VERSIONED}, "keys in order")
        end = None if high is None else high + b"\x00"
        if prefix is not None:
            low, end = prefix, after_prefix(prefix)
        return await self._page(Query(kind=SCAN, store=name, partitions=(), low=low, high=end), limit, cursor, demands)

    async def windows(
        self,
        name: str,
        key: bytes,
        from_ms: int = 0,
        to_ms: int = MAX_MILLIS,
        *,
        limit: int,
        cursor: str | None = None,
        demands: Demands = ANY,
    ) -> Page:
        """The windows of a key that start within these times, both included."""
        self._need(name, WINDOW_KINDS, "windows")
        return await self._of_key(WINDOWS, name, key, from_ms, to_ms, limit, cursor, demands)

    async def sessions(
        self,
        name: str,
        key: bytes,
        from_ms: int = 0,
        to_ms: int = MAX_MILLIS,
        *,
        limit: int,
        cursor: str | None = None,
        demands: Demands = ANY,
    ) -> Page:
        """The sessions of a key that have a part within these times."""
        self._need(name, {StoreKind.SESSION}, "sessions")
        return await self._of_key(SESSIONS, name, key, from_ms, to_ms, limit, cursor, demands)

    async def times(
        self,
        name: str,
        from_ms: int = 0,
        to_ms: int = MAX_MILLIS,
        *,
        limit: int,
        cursor: str | None = None,
        demands: Demands = ANY,
    ) -> Page:
        """The windows (by their start) or the sessions (by any part) of all keys within these times."""
        self._need(name, WINDOW_KINDS | {StoreKind.SESSION}, "windows or sessions")
        query = Query(kind=TIMES, store=name, partitions=(), from_ms=from_ms, to_ms=to_ms)
        return await self._page(query, limit, cursor, demands)

    async def count(self, name: str, demands: Demands = ANY) -> Answer:
        """About how many entries the store has."""
        self.store(name)
        partitions = tuple(range(self._instance.partitions(name)))
        query = Query(kind=COUNT, store=name, partitions=partitions, **self._of(name, demands))
        return await self._ask(query, demands)

    async def _of_key(
        self,
        kind: str,
        name: str,
        key: bytes,
        from_ms: int,
        to_ms: int,
        limit: int,
        cursor: str | None,
        demands: Demands,
    ) -> Page:
        query = Query(
            kind=kind,
            store=name,
            partitions=(self._router.partition_of(name, key),),
            keys=(key,),
            from_ms=from_ms,
            to_ms=to_ms,
            after=_read_cursor(cursor, _PLACE_LENGTHS[kind]).beginning or None,
            limit=limit + 1,
            **self._of(name, demands),
        )
        return _page_of(await self._ask_fully(query, demands), limit)

    async def _page(self, query: Query, limit: int, cursor: str | None, demands: Demands) -> Page:
        partitions = tuple(range(self._instance.partitions(query.store)))
        whole = replace(query, partitions=partitions, limit=limit + 1, **self._of(query.store, demands))
        if cursor is not None:
            whole = replace(whole, after=await self._find(whole, _read_cursor(cursor), demands))
        return _page_of(await self._ask(whole, demands), limit)

    async def _find(self, query: Query, mark: _Mark, demands: Demands) -> bytes:
        """The place that a cursor stands for. Where it is gone, all of the same beginning is read again."""
        if mark.digest is None:
            return mark.beginning
        wanted = replace(query, kind=LOCATE, low=mark.beginning, digest=mark.digest, limit=1)
        found = await self._ask(wanted, demands)
        return found.rows[0].place if found.rows else mark.beginning

    async def _ask_fully(self, query: Query, demands: Demands) -> Answer:
        answer = await self._ask(query, demands)
        if answer.refused:
            raise UnavailableError(query.store, answer.refused)
        return answer

    async def _ask(self, query: Query, demands: Demands) -> Answer:
        if demands.local:
            return await self._router.ask_locally(query, demands.timeout)
        return await self._router.ask(query, demands.timeout)

    def _partitions(self, name: str, keys: Iterable[bytes]) -> tuple[int, ...]:
        """Where keys are: those of a global table, whose topic is written by others, may be in any partition."""
        if self.store(name).is_global:
            return tuple(range(self._instance.partitions(name)))
        return tuple(sorted({self._router.partition_of(name, key) for key in keys}))

    def _of(self, name: str, demands: Demands) -> dict[str, Any]:
        partitions = self._instance.partitions(name)
        for partition in demands.min_position:
            if not 0 <= partition < partitions:
                raise DemandError(f"Store {name} has {partitions} partitions: the position has none of {partition}.")
        return {
            "allow_stale": demands.allow_stale,
            "min_position": dict(demands.min_position),
            "max_staleness_ms": demands.max_staleness_ms,
            "most_bytes": self.most_bytes,
        }

    def _need(self, name: str, kinds: Iterable[StoreKind], what: str) -> None:
        kind = self.store(name).spec.kind
        if kind not in kinds:
            raise StoreError(f"Store {name} is a {kind.value} store, which cannot be asked for {what}.")


def _latest(rows: list[Row]) -> list[Row]:
    """One row a key: that of the latest time."""
    found: dict[bytes, Row] = {}
    for row in rows:
        known = found.get(row.key)
        if known is None or (row.timestamp or 0) > (known.timestamp or 0):
            found[row.key] = row
    return list(found.values())


def _page_of(answer: Answer, limit: int) -> Page:
    rows = answer.rows[:limit]
    has_more = len(answer.rows) > limit or answer.cut is not None
    cursor = _write_cursor(rows[-1].place) if has_more else None
    return Page(rows, cursor, answer.positions, answer.staleness_ms, answer.refused)


class _Mark(NamedTuple):
    """What a cursor tells of the last row of a page."""

    beginning: bytes
    """Its place, or the first bytes of a long one."""
    digest: bytes | None = None
    """The hash of a long place."""


def _write_cursor(place: bytes) -> str:
    if len(place) <= MARKED_BYTES:
        return _encoded(place)
    # Whoever pages through long keys sends the cursor in an address, which has a limit.
    return f"{_encoded(place[:MARKED_BYTES])}{_MARK}{_encoded(digest_of(place))}"


def _read_cursor(cursor: str | None, length: int | None = None) -> _Mark:
    if cursor is None:
        return _Mark(b"")
    try:
        beginning, *digests = (_decoded(part) for part in cursor.split(_MARK))
        if not digests and length in (None, len(beginning)):
            return _Mark(beginning)
        if len(digests) == 1 and length is None and len(beginning) == MARKED_BYTES:
            return _Mark(beginning, digests[0])
    except (binascii.Error, UnicodeEncodeError, ValueError):
        pass
    raise CursorError("The cursor is not one that an earlier page of the same query gave.")


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


def _decoded(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
