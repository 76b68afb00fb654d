"""Queries as data, and what an instance's own copies answer. Keys and values are bytes: who asks has the serdes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice, takewhile
from typing import Any

import msgspec
from msgspec.structs import replace

from headrace.duration import MAX_MILLIS
from headrace.errors import StoreError
from headrace.record import ValueAndTimestamp
from headrace.serdes.forms.session_key import unpack_session_key
from headrace.serdes.forms.timestamped import unpack_timestamped
from headrace.serdes.forms.window_key import unpack_window_store_key, window_end
from headrace.serdes.hashing import partition_for_key
from headrace.serving.catalog import KEY_VALUE_KINDS, SERVED_KINDS, WINDOW_KINDS, ServedStore
from headrace.serving.config import MAX_ANSWER_BYTES
from headrace.serving.copies import CopyClosed, PartitionCopy
from headrace.serving.instance import Instance
from headrace.topology.stores import StoreKind

GET = "get"
"""The values of some keys."""
SCAN = "scan"
"""Keys in order, from one to before another."""
WINDOWS = "windows"
"""The windows of one key."""
SESSIONS = "sessions"
"""The sessions of one key."""
TIMES = "times"
"""The windows or sessions of all keys within a span of time."""
COUNT = "count"
"""About how many entries there are."""
MARKED_BYTES = 1024
"""A place longer than this is known by its beginning of so many bytes and by its hash."""
LOCATE = "locate"
"""The place whose beginning and hash a cursor has."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A question to some partitions of a store."""

    kind: str
    store: str
    partitions: tuple[int, ...]
    keys: tuple[bytes, ...] = ()
    low: bytes | None = None
    high: bytes | None = None
    from_ms: int = 0
    to_ms: int = MAX_MILLIS
    as_of: int | None = None
    after: bytes | None = None
    """The place of the last row that is known already."""
    digest: bytes = b""
    """The hash of the place that is looked for."""
    limit: int = 1000
    most_bytes: int = MAX_ANSWER_BYTES
    """About how many bytes of keys and values the answer may have: one more row may be in it."""
    allow_stale: bool = False
    min_position: dict[int, int] = {}
    max_staleness_ms: int | None = None
    wait_ms: int = 0
    """How long a peer may wait for what is demanded."""


class Row(msgspec.Struct, frozen=True):
    """An entry of a store."""

    place: bytes
    """What rows of all partitions are ordered by."""
    key: bytes
    value: bytes
    timestamp: int | None = None
    start: int | None = None
    end: int | None = None


class Refusal(msgspec.Struct, frozen=True):
    """Why a partition was not answered for."""

    reason: str
    detail: str


NOT_HERE = "not-here"
RESTORING = "restoring"
TOO_STALE = "too-stale"
BEHIND = "behind"
_NOT_HERE = Refusal(NOT_HERE, "this instance does not have the partition")


class Answer(msgspec.Struct):
    """What some partitions have to say, and how fresh it is."""

    rows: list[Row] = []
    count: int = 0
    positions: dict[int, int] = {}
    staleness_ms: int | None = 0
    """How old any part of it may be at most; None where that is not known."""
    refused: dict[int, Refusal] = {}
    cut: bytes | None = None
    """The last place up to which the rows are whole, where there were too many bytes for one answer."""


def check_query(query: Query, store: ServedStore) -> None:
    """StoreError for a query that is none for this store."""
    if query.kind not in _KINDS or store.spec.kind not in _KINDS[query.kind]:
        raise StoreError(f"Store {store.name} is a {store.spec.kind.value} store, which has no query {query.kind!r}")
    if query.kind in (WINDOWS, SESSIONS) and len(query.keys) != 1:
        raise StoreError(f"A query {query.kind!r} is about one key")
    if query.as_of is not None and store.spec.kind is not StoreKind.VERSIONED:
        raise StoreError(f"Store {store.name} is not versioned: it has no values of earlier times")
    if query.kind == LOCATE and len(query.low or b"") < MARKED_BYTES:
        raise StoreError("What is looked for has a longer beginning")
    if query.limit < 1:
        raise StoreError("The limit of a query is at least 1")


def answer_locally(instance: Instance, query: Query) -> Answer:
    """What this instance's own copies have to say, all of one moment. Nobody else is asked."""
    answer = Answer(rows=[], positions={}, refused={})
    fit = []
    for partition in query.partitions:
        copy = instance.copy(query.store, partition)
        refusal = _unfit(copy, query)
        if copy is None or refusal is not None:
            answer.refused[partition] = refusal or _NOT_HERE
        else:
            # Noted before the content is read: the answer may be fresher than it says, never older.
            fit.append((copy, copy.position, copy.staleness_ms(), copy.is_whole))
    parts: list[Iterable[Row]] = []
    try:
        with instance.snapshot() as snapshot:
            for copy, position, staleness, is_whole in fit:
                if copy.is_gone:
                    answer.refused[copy.id.partition] = _NOT_HERE
                    continue
                part = _read(instance, copy, copy.store_in(snapshot), query, is_whole)
                if part is None:
                    answer.refused[copy.id.partition] = _restoring(copy)
                    continue
                answer.count += part.count
                parts.append(part.rows)
                answer.positions[copy.id.partition] = position
                answer.staleness_ms = _older(answer.staleness_ms, staleness)
            _fill(answer, parts, query.limit, query.most_bytes)
    except CopyClosed:
        return Answer(refused=dict.fromkeys(query.partitions, _NOT_HERE))
    return answer


def merge_answers(answers: Iterable[Answer], limit: int, most_bytes: int = MAX_ANSWER_BYTES) -> Answer:
    """One answer out of those of several instances."""
    merged = Answer(rows=[], positions={}, refused={})
    parts = []
    for answer in answers:
        parts.append(answer.rows)
        merged.count += answer.count
        merged.positions.update(answer.positions)
        merged.refused.update(answer.refused)
        merged.cut = _sooner(merged.cut, answer.cut)
        if answer.positions:
            merged.staleness_ms = _older(merged.staleness_ms, answer.staleness_ms)
    _fill(merged, parts, limit, most_bytes)
    return merged


def waits(instance: Instance, query: Query) -> bool:
    """Whether a copy here would answer, once it is as fresh as is demanded."""
    if not query.min_position and query.max_staleness_ms is None:
        return False
    copies = (instance.copy(query.store, partition) for partition in query.partitions)
    return any(
        copy is not None and _unready(copy, query) is None and _unfresh(copy, query) is not None for copy in copies
    )


def _of_partition(instance: Instance, query: Query, partition: int) -> Query:
    """The query with those keys alone that belong to the partition; those of a global table may be in any."""
    if query.kind != GET or instance.stores[query.store].is_global:
        return query
    partitions = instance.partitions(query.store)
    return replace(query, keys=tuple(key for key in query.keys if partition_for_key(key, partitions) == partition))


def _fill(answer: Answer, parts: Sequence[Iterable[Row]], limit: int, most_bytes: int) -> None:
    """Gives the answer the first rows of all parts together, each of which is in the order of the places."""
    size = 0
    merged = parts[0] if len(parts) == 1 else heapq.merge(*parts, key=lambda row: row.place)
    for row in islice(merged, limit):
        if answer.cut is not None and row.place > answer.cut:
            return
        answer.rows.append(row)
        size += len(row.key) + len(row.value)
        if size > most_bytes:
            answer.cut = row.place
            return


def _unfit(copy: PartitionCopy | None, query: Query) -> Refusal | None:
    """Why a copy cannot answer now."""
    if copy is None:
        return _NOT_HERE
    return _unready(copy, query) or _unfresh(copy, query)


def _unready(copy: PartitionCopy, query: Query) -> Refusal | None:
    if query.allow_stale or copy.ready:
        return None
    return _restoring(copy) if copy.followed else _NOT_HERE


def _unfresh(copy: PartitionCopy, query: Query) -> Refusal | None:
    wanted = query.min_position.get(copy.id.partition)
    if wanted is not None and copy.position < wanted:
        return Refusal(BEHIND, f"the partition is at offset {copy.position}, {wanted} was asked for")
    limit, staleness = query.max_staleness_ms, copy.staleness_ms()
    if limit is not None and (staleness is None or staleness > limit):
        known = "its age is not known" if staleness is None else f"it may be {staleness} ms old"
        return Refusal(TOO_STALE, f"the partition: {known}, at most {limit} ms was asked for")
    return None


def _restoring(copy: PartitionCopy) -> Refusal:
    left = "it is not known how many" if copy.left is None else copy.left
    return Refusal(RESTORING, f"the partition is being restored, records left: {left}")


def _sooner(one: bytes | None, other: bytes | None) -> bytes | None:
    return other if one is None else one if other is None else min(one, other)


def _older(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


# --- the kinds ---------------------------------------------------------------------------------------------------


@dataclass
class _Part:
    """What one copy has to say."""

    rows: Iterable[Row] = ()
    count: int = 0


def _read(instance: Instance, copy: PartitionCopy, store: Any, query: Query, is_whole: bool) -> _Part | None:
    """What a copy has to say; None where it is not whole: what it does not have may well be there."""
    if query.kind == COUNT:
        return _Part(count=store.approximate_count()) if is_whole else None
    asked = query if len(query.partitions) == 1 else _of_partition(instance, query, copy.id.partition)
    rows = _READERS[query.kind](copy, store, asked)
    if is_whole:
        return _Part(rows)
    if query.kind != GET:
        return None
    found = Answer(rows=[])
    _fill(found, [rows], query.limit, query.most_bytes)
    return _Part(found.rows) if found.cut is not None or len(found.rows) == len(asked.keys) else None


def _get(copy: PartitionCopy, store: Any, query: Query) -> Iterator[Row]:
    for key in sorted(query.keys):
        if query.as_of is not None:
            found = store.get_as_of(key, query.as_of)
        else:
            found = store.get(key)
        if found is not None:
            yield Row(key, key, *_timed(found))


def _scan(copy: PartitionCopy, store: Any, query: Query) -> Iterator[Row]:
    low = query.low
    if query.after is not None:
        low = query.after + b"\x00" if low is None else max(low, query.after + b"\x00")
    for key, found in store.range(low, None):
        if query.high is not None and key >= query.high:
            return
        yield Row(key, key, *_timed(found))


def _windows(copy: PartitionCopy, store: Any, query: Query) -> Iterator[Row]:
    (key,) = query.keys
    size = copy.store.spec.window_size_ms
    first, last, number = query.from_ms, None, 0
    if query.after is not None:
        first = max(first, int.from_bytes(query.after[:8], "big"))
    for start, found in store.fetch(key, first, query.to_ms):
        # A store that retains duplicates has several values for one start.
        number = number + 1 if start == last else 0
        last = start
        place = _time(start) + number.to_bytes(4, "big")
        if query.after is None or place > query.after:
            yield Row(place, key, *_timed(found), start, window_end(start, size))


def _sessions(copy: PartitionCopy, store: Any, query: Query) -> Iterator[Row]:
    (key,) = query.keys
    for windowed, value in store.find_sessions(key, query.from_ms, query.to_ms):
        window = windowed.window
        place = _time(window.end) + _time(window.start)
        if query.after is None or place > query.after:
            yield Row(place, key, value, None, window.start, window.end)


def _times(copy: PartitionCopy, store: Any, query: Query) -> Iterator[Row]:
    if copy.store.spec.kind is StoreKind.SESSION:
        for place, value in store.scan(query.after, query.from_ms, MAX_MILLIS):
            key, start, end = unpack_session_key(place[8:])
            if start <= query.to_ms:
                yield Row(place, key, value, None, start, end)
        return
    size = copy.store.spec.window_size_ms
    is_timed = copy.store.spec.kind is StoreKind.TIMESTAMPED_WINDOW
    for place, packed in store.scan(query.after, query.from_ms, query.to_ms):
        key, start, _ = unpack_window_store_key(place[8:])
        value, timestamp = unpack_timestamped(packed) if is_timed else (packed, None)
        yield Row(place, key, value, timestamp, start, window_end(start, size))


def _locate(copy: PartitionCopy, store: Any, query: Query) -> Iterator[Row]:
    beginning = query.low or b""
    if copy.store.spec.kind in KEY_VALUE_KINDS:
        places = (key for key, _ in store.range(beginning, None))
    else:
        places = (place for place, _ in store.scan(beginning, 0, MAX_MILLIS))
    for place in takewhile(lambda place: place.startswith(beginning), places):
        if digest_of(place) == query.digest:
            yield Row(place, b"", b"")
            return


def digest_of(place: bytes) -> bytes:
    """What a long place is known by."""
    return sha256(place).digest()


_KINDS: dict[str, frozenset[StoreKind]] = {
    GET: KEY_VALUE_KINDS,
    SCAN: KEY_VALUE_KINDS - {StoreKind.VERSIONED},
    WINDOWS: WINDOW_KINDS,
    SESSIONS: frozenset({StoreKind.SESSION}),
    TIMES: WINDOW_KINDS | {StoreKind.SESSION},
    COUNT: SERVED_KINDS,
    LOCATE: SERVED_KINDS - {StoreKind.VERSIONED},
}
_READERS: dict[str, Callable[[PartitionCopy, Any, Query], Iterator[Row]]] = {
    GET: _get,
    SCAN: _scan,
    WINDOWS: _windows,
    SESSIONS: _sessions,
    TIMES: _times,
    LOCATE: _locate,
}


def _timed(found: Any) -> tuple[bytes, int | None]:
    if isinstance(found, ValueAndTimestamp):
        return found.value, found.timestamp
    return found, None


def _time(millis: int) -> bytes:
    return millis.to_bytes(8, "big")
