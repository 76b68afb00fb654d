"""What a scenario led to, and how two outcomes differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from headrace.record import Headers

_LANGUAGE_HEADERS = (
    "__streams.errors.exception",
    "__streams.errors.message",
    "__streams.errors.stacktrace",
)
"""Headers of a dead letter that speak of Java or Python classes; only their presence is compared."""


@dataclass(frozen=True)
class Written:
    """A record on a topic, as bytes."""

    key: bytes | None
    value: bytes | None
    timestamp: int | None
    """None where Kafka Streams leaves it to the producer, which puts the time of sending."""
    headers: Headers = ()

    def comparable(self) -> Written:
        """The record without what depends on the language."""
        if not any(name in _LANGUAGE_HEADERS for name, _ in self.headers):
            return self
        headers = tuple((name, b"*" if name in _LANGUAGE_HEADERS else value) for name, value in self.headers)
        return Written(self.key, self.value, self.timestamp, headers)

    def __str__(self) -> str:
        headers = f" headers {list(self.headers)}" if self.headers else ""
        return f"{self.key!r} -> {self.value!r} @{self.timestamp}{headers}"


@dataclass(frozen=True)
class Failure:
    """Where it stopped, and the kind of error: setup (before any event), deserialization, processing, …"""

    kind: str
    event: int | None = None
    detail: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.kind} ({self.detail.strip()[:2000]})"


@dataclass
class Outcome:
    """Everything a scenario led to."""

    description: str = ""
    produced: list[dict[str, list[Written]]] = field(default_factory=list)
    """What each event wrote, by topic."""
    stores: dict[str, list[Any]] = field(default_factory=dict)
    traced: list[Any] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    failure: Failure | None = None


Names = tuple[str, str]
"""Of what is expected and of what is compared with it."""

_RUNTIMES: Names = ("Kafka Streams", "Headrace")


def compare(expected: Outcome, actual: Outcome, events: Sequence[Any], names: Names = _RUNTIMES) -> str | None:
    """The first difference, as text; None where the outcomes agree."""
    if expected.description != actual.description and expected.description and actual.description:
        return "describe() differs\n" + side_by_side(
            expected.description.splitlines(), actual.description.splitlines(), names
        )
    # What a failing event had already written is not to be seen in Kafka Streams' driver.
    for index, (theirs, ours) in enumerate(zip(expected.produced, actual.produced, strict=False)):
        difference = _compare_event(theirs, ours, names)
        if difference:
            return f"after event {index}, {events[index]}:\n{difference}"
    if expected.failure != actual.failure:
        return "failure differs\n" + side_by_side([_told(expected, events)], [_told(actual, events)], names)
    for what in ("stores", "traced", "printed"):
        difference = _compare_rest(what, getattr(expected, what), getattr(actual, what), names)
        if difference:
            return difference
    return None


def _told(outcome: Outcome, events: Sequence[Any]) -> str:
    if outcome.failure is None:
        return "none"
    event = outcome.failure.event
    return f"{outcome.failure}" if event is None else f"at event {event}, {events[event]}: {outcome.failure}"


def _compare_event(expected: dict[str, list[Written]], actual: dict[str, list[Written]], names: Names) -> str | None:
    for topic in sorted({*expected, *actual}):
        theirs = [record.comparable() for record in expected.get(topic, [])]
        ours = [record.comparable() for record in actual.get(topic, [])]
        for index, (one, other) in enumerate(zip(theirs, ours, strict=False)):
            if one.timestamp is None:
                ours[index] = replace(other, timestamp=None)
        if ours != theirs:
            return f"topic {topic}\n" + side_by_side(theirs, ours, names)
    return None


def _compare_rest(what: str, expected: Any, actual: Any, names: Names) -> str | None:
    if expected == actual:
        return None
    if not isinstance(expected, dict):
        return f"{what} differ\n" + side_by_side(expected, actual, names)
    for name in sorted({*expected, *actual}):
        if expected.get(name) != actual.get(name):
            return f"{what}: {name} differs\n" + side_by_side(expected.get(name, ()), actual.get(name, ()), names)
    return None


def side_by_side(expected: Sequence[Any], actual: Sequence[Any], names: Names = _RUNTIMES) -> str:
    """What two runtimes wrote, line by line."""
    missing = object()
    first, second, both = (f"{name}:".ljust(15) for name in (*names, "both"))
    lines = []
    for theirs, ours in zip_longest(expected, actual, fillvalue=missing):
        if theirs == ours:
            lines.append(f"    {both}{theirs}")
            continue
        if theirs is not missing:
            lines.append(f"  > {first}{theirs}")
        if ours is not missing:
            lines.append(f"  > {second}{ours}")
    return "\n".join(lines)
