"""Clients that read from random instances and note what they are told."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from headrace.client import Client, ClientError, Entry
from tests.histories.history import ABSENT, LAST_KEY, OK, History, Place, Read, Span, Value
from tests.histories.orders import LOCATIONS, REVENUE, SALES, STRANGERS, UNPAID, WINDOW_MS

_PAUSE_SECONDS = 0.02
_STALENESSES_MS = (300, 1_000, 5_000)
_LIMITS = (5, 100)
_CLIENT_SECONDS = 60.0
_KEYS = [*LOCATIONS, *STRANGERS]

Windows = tuple[int, int]


@dataclass(frozen=True)
class Patience:
    """How long clients wait: one of these."""

    seconds: Sequence[float]
    """For an answer."""
    timeouts_ms: Sequence[int]
    """What they tell the instance to wait for what they demand."""
    stalenesses_ms: Sequence[int]


RESTLESS = Patience((0.5, 0.5, 0.5, 3.0, 3.0, 20.0), (300, 2_000, 5_000), _STALENESSES_MS)
"""Mostly short: a stopped instance must not stop all clients. What it answers when it goes on is worth waiting for."""
PATIENT = Patience((_CLIENT_SECONDS,), (20_000,), (5_000,))


@dataclass(frozen=True)
class Question:
    """What is asked: a path, its parameters and the span they mean."""

    store: str
    path: str
    span: Span
    parameters: Mapping[str, Any] = field(default_factory=dict)


def random_question(chance: random.Random) -> Question:
    """A key, a range of keys, the windows of a key or those of all keys."""
    kind = chance.random()
    key = chance.choice(_KEYS)
    if kind < 0.7:
        store = chance.choice((REVENUE, UNPAID))
        return Question(store, f"/v1/stores/{store}/keys/{key}", Span.of_key(key))
    if kind < 0.8:
        store = chance.choice((REVENUE, UNPAID))
        low, high = sorted(chance.sample(_KEYS, 2))
        parameters = {"from": low, "to": high, "limit": chance.choice(_LIMITS)}
        return Question(store, f"/v1/stores/{store}/keys", Span(low, high), parameters)
    from_ms, to_ms = _recent_windows(chance)
    times = {"from": from_ms, "to": to_ms, "limit": 10_000}
    if kind < 0.95:
        return Question(SALES, f"/v1/stores/{SALES}/windows/{key}", Span.of_key(key, from_ms, to_ms), times)
    return Question(SALES, f"/v1/stores/{SALES}/windows", Span("", LAST_KEY, from_ms, to_ms), times)


def _recent_windows(chance: random.Random) -> Windows:
    now = int(time.time() * 1000)
    return now - chance.randrange(1, 6) * WINDOW_MS, now + WINDOW_MS


class Clients:
    """Threads that read all the time."""

    def __init__(self, readers: Sequence[Callable[[], None]]) -> None:
        self._over = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(reader,), daemon=True) for reader in readers]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def _run(self, read: Callable[[], None]) -> None:
        try:
            while not self._over.wait(_PAUSE_SECONDS):
                read()
        except BaseException as failure:
            self._failures.append(failure)


class RestReader:
    """A client that asks any instance over HTTP, and at times for what it has seen already or for less."""

    def __init__(
        self,
        number: int,
        addresses: Callable[[], Sequence[str]],
        history: History,
        seed: object,
        patience: Patience = RESTLESS,
    ) -> None:
        """`addresses` gives those of the instances to ask at the moment."""
        self._patience = patience
        self._number = number
        self._addresses = addresses
        self._history = history
        self._chance = random.Random(f"{seed}-{number}")
        self._http = httpx.Client(trust_env=False)
        self._seen: dict[str, dict[int, int]] = {}
        """By store and partition, the latest position that it was told of."""

    def __call__(self) -> None:
        question = random_question(self._chance)
        demands = self._demands(question.store)
        self._note(question, demands, self._chance.choice(self._addresses()))

    def _demands(self, store: str) -> dict[str, Any]:
        kind = self._chance.random()
        timeout = self._chance.choice(self._patience.timeouts_ms)
        if kind < 0.4:
            return {}
        if kind < 0.75:
            seen = self._seen.get(store, {})
            return {"min_position": seen, "timeout_ms": timeout} if seen else {}
        if kind < 0.9:
            return {"allow_stale": True}
        return {"max_staleness_ms": self._chance.choice(self._patience.stalenesses_ms), "timeout_ms": timeout}

    def _note(self, question: Question, demands: Mapping[str, Any], address: str) -> None:
        parameters = {**question.parameters, **demands}
        if "min_position" in demands:
            parameters["min_position"] = ",".join(
                f"{each}:{offset}" for each, offset in demands["min_position"].items()
            )
        patience = self._chance.choice(self._patience.seconds)
        failure = ""
        sent = time.monotonic()
        try:
            response = self._http.get(f"http://{address}{question.path}", params=parameters, timeout=patience)
        except httpx.TransportError as error:
            response, failure = None, type(error).__name__
        read = Read(
            self._number,
            address,
            question.store,
            question.span,
            sent,
            time.monotonic(),
            None if response is None else response.status_code,
            min_position=dict(demands.get("min_position", {})),
            max_staleness_ms=demands.get("max_staleness_ms"),
            allow_stale=demands.get("allow_stale", False),
            **({"refusal": failure} if response is None else _told(response)),
        )
        self._history.add(read)
        if read.is_answered:
            seen = self._seen.setdefault(question.store, {})
            seen.update({each: max(offset, seen.get(each, 0)) for each, offset in (read.positions or {}).items()})


class PatientReader:
    """A client as programs use it: it knows all instances and goes on to the next one."""

    def __init__(self, number: int, addresses: Sequence[str], history: History, seed: object) -> None:
        self._number = number
        self._history = history
        self._chance = random.Random(f"{seed}-{number}")
        self._client = Client(self._chance.sample(addresses, len(addresses)), timeout=_CLIENT_SECONDS)

    def __call__(self) -> None:
        chance = self._chance
        staleness = chance.choice(_STALENESSES_MS)
        kind = chance.random()
        store = SALES if kind >= 0.9 else chance.choice((REVENUE, UNPAID))
        asked = self._client.store(store, max_staleness_ms=staleness)
        key = chance.choice(_KEYS)
        span = Span.of_key(key)
        sent = time.monotonic()
        try:
            if kind < 0.8:
                entry = asked.entry(key)
                entries = [] if entry is None else [entry]
            elif kind < 0.9:
                low, high = sorted(chance.sample(_KEYS, 2))
                span = Span(low, high)
                entries = list(asked.range(low, high))
            else:
                from_ms, to_ms = _recent_windows(chance)
                span = Span.of_key(key, from_ms, to_ms)
                entries = list(asked.windows(key, from_ms, to_ms))
            status: int | None = OK if entries or kind >= 0.8 else ABSENT
        except ClientError as error:
            entries, status = [], error.status
        self._history.add(
            Read(
                self._number,
                "any",
                store,
                span,
                sent,
                time.monotonic(),
                status,
                dict(map(_entry_of_client, entries)),
                max_staleness_ms=staleness,
            )
        )


def _told(response: httpx.Response) -> dict[str, Any]:
    """What an answer says, by the fields of a read."""
    found = response.json()
    if response.status_code == ABSENT:
        assert found["title"] == "No such key", found
    if response.status_code not in (OK, ABSENT):
        return {"refusal": found.get("detail", "")}
    listed = found.get("entries", [found] if response.status_code == OK else [])
    entries = dict(map(_entry, listed))
    return {
        "entries": entries,
        "positions": _positions(found["position"]),
        "missing": frozenset(each["partition"] for each in found.get("missing", ())),
        "refusal": "; ".join(each["detail"] for each in found.get("missing", ())),
        "staleness_ms": found["staleness_ms"],
        "last": max(entries) if found.get("next") else None,
    }


def _positions(text: str) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in (each.split(":") for each in text.split(",") if each)}


def _entry(found: Mapping[str, Any]) -> tuple[Place, Value]:
    start = found["window"]["start"] if "window" in found else 0
    return Place(found["key"], start), Value.of(found["value"], found["timestamp"])


def _entry_of_client(entry: Entry) -> tuple[Place, Value]:
    start = 0 if entry.window is None else entry.window[0]
    return Place(entry.key, start), Value.of(entry.value, entry.timestamp or 0)
