"""What clients were told: every read with what was asked, where, when, and what came back."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

OK = 200
ABSENT = 404

LAST_KEY = "\U0010ffff"
"""No key is greater."""
LAST_MILLIS = 2**63 - 1


class Place(NamedTuple):
    """Where an entry of a store is: its key, and in a window store the start of its window."""

    key: str
    start: int = 0


class Value(NamedTuple):
    """The content of an entry: its value as JSON, and its timestamp."""

    text: str
    timestamp: int

    @classmethod
    def of(cls, content: Any, timestamp: int) -> Value:
        """The value in one form, whoever wrote it."""
        return cls(json.dumps(content, sort_keys=True), timestamp)


@dataclass(frozen=True)
class Span:
    """The entries a read asks for: keys from one to another and window starts within times, all ends included."""

    low: str
    high: str
    from_ms: int = 0
    to_ms: int = LAST_MILLIS

    @classmethod
    def of_key(cls, key: str, from_ms: int = 0, to_ms: int = LAST_MILLIS) -> Span:
        """All that one key has."""
        return cls(key, key, from_ms, to_ms)

    @property
    def key(self) -> str | None:
        """The one key it is about, None if there may be several."""
        return self.low if self.low == self.high else None

    def __contains__(self, place: Place) -> bool:
        return self.low <= place.key <= self.high and self.from_ms <= place.start <= self.to_ms


@dataclass(frozen=True)
class Read:
    """One request of a client and its answer. Times are of the monotonic clock, which processes share."""

    client: int
    instance: str
    store: str
    span: Span
    sent: float
    received: float
    status: int | None
    """Of HTTP; None where no answer came."""
    entries: Mapping[Place, Value] = field(default_factory=dict)
    """What was found in the span; nothing where the key is said to be absent."""
    positions: Mapping[int, int] | None = None
    """By partition, the position of the answer; None where the client does not tell positions."""
    missing: frozenset[int] = frozenset()
    """The partitions that the answer says it does not have."""
    staleness_ms: int | None = None
    """How old the answer says it may be at most; None where it does not say."""
    refusal: str = ""
    """Why there is no answer, or not of all partitions."""
    last: Place | None = None
    """The last place up to which the answer is whole, where there is a further page."""
    min_position: Mapping[int, int] = field(default_factory=dict)
    max_staleness_ms: int | None = None
    allow_stale: bool = False

    @property
    def is_answered(self) -> bool:
        """Whether it was told something about the content of the store."""
        return self.status in (OK, ABSENT)

    @property
    def covered(self) -> Span:
        """The part of the span that the answer is about."""
        if self.last is None:
            return self.span
        return Span(self.span.low, self.last.key, self.span.from_ms, self.span.to_ms)

    def __str__(self) -> str:
        asked = {"min_position": dict(self.min_position), "max_staleness_ms": self.max_staleness_ms}
        demands = {name: value for name, value in asked.items() if value}
        found = {f"{place.key}@{place.start}": value.text for place, value in self.entries.items()}
        return (
            f"client {self.client} at {self.instance}, {self.store} {self.span}, {demands or 'plain'}"
            f"{', allow_stale' if self.allow_stale else ''}, {self.sent:.3f}-{self.received:.3f}: {self.status} "
            f"{self.refusal} at {self.positions}, {self.staleness_ms} ms old: {found}"
        )


class History:
    """The reads of all clients, added by any thread."""

    def __init__(self, reads: Iterable[Read] = ()) -> None:
        self._reads = list(reads)
        self._lock = threading.Lock()

    def add(self, read: Read) -> None:
        """Notes a read."""
        with self._lock:
            self._reads.append(read)

    @property
    def reads(self) -> list[Read]:
        """All that were noted so far."""
        with self._lock:
            return list(self._reads)

    def __len__(self) -> int:
        return len(self._reads)
