"""An application with stores of every kind, and what they are fed with."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from headrace import (
    Consumed,
    Grouped,
    Materialized,
    Serde,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
)


@dataclass(frozen=True)
class Place:
    city: str
    number: int


def _write_place(place: Any) -> bytes:
    return f"{place['city']}/{place['number']}".encode()


def _read_place(data: bytes) -> dict[str, Any]:
    city, _, number = data.decode().rpartition("/")
    return {"city": city, "number": int(number)}


CUSTOM: Serde[Any] = Serde(_write_place, _read_place, "place")

KEYS: dict[str, tuple[Serde[Any], list[Any]]] = {
    "string": (
        Serdes.string(),
        ["a", "", "ä/b", "..", ".", "a b+c", "%2e%2e", "x" * 600, "null", "5", '"', "a\nb", "日本"],
    ),
    "long": (Serdes.long(), [0, 1, -1, 2**63 - 1, -(2**63), 42]),
    "integer": (Serdes.integer(), [0, 7, -7, 2**31 - 1]),
    "short": (Serdes.short(), [0, 3, -3]),
    "double": (Serdes.double(), [0.0, 1.5, -2.25, 1e300, float("inf"), 3.0]),
    "float": (Serdes.float(), [0.0, 0.5, -0.25]),
    "uuid": (Serdes.uuid(), [UUID(int=0), UUID(int=1 << 100), UUID("12345678-1234-5678-1234-567812345678")]),
    "boolean": (Serdes.boolean(), [True, False]),
    "bytes": (Serdes.bytes(), [b"\x00", b"\xff\xfe", b"abc", b">>>???", b""]),
    "json": (Serdes.json(), [{"a": 1}, [1, 2], "text", 5, True, {"b": {"c": ".."}}]),
    "typed": (Serdes.json(Place), [Place("Ulm", 1), Place("Bonn", 2)]),
    "custom": (CUSTOM, [{"city": "Ulm", "number": 1}, {"city": "a/b", "number": 2}]),
}
ABSENT: dict[str, Any] = {
    "string": "none",
    "long": 99,
    "integer": 99,
    "short": 99,
    "double": 99.0,
    "float": 99.0,
    "uuid": UUID(int=99),
    "bytes": b"none",
    "json": "none",
    "typed": Place("none", 0),
    "custom": {"city": "none", "number": 0},
}
MINUTE = 60_000
BASE = (int(time.time()) // 3600 - 2) * 60 * MINUTE
"""When clicks and prices begin: recently, as Kafka removes old windows and old versions from changelogs."""


def shop(prefix: str) -> Topology:
    """The application. Its source topics begin with the prefix."""
    builder = StreamsBuilder()
    clicks = builder.stream(f"{prefix}-clicks", Consumed(Serdes.string(), Serdes.string()))
    grouped = clicks.group_by_key(Grouped(Serdes.string(), Serdes.string()))
    grouped.count("clicks")
    grouped.windowed_by(TimeWindows(size=timedelta(minutes=1))).count(
        Materialized("minutes", retention=timedelta(days=1))
    )
    grouped.windowed_by(SessionWindows(gap=timedelta(seconds=30))).count(
        Materialized("visits", retention=timedelta(days=1))
    )
    builder.table(
        f"{prefix}-prices",
        Consumed(Serdes.string(), Serdes.double()),
        Materialized.versioned("prices", history_retention=timedelta(hours=1)),
    )
    for name, (serde, _) in KEYS.items():
        builder.table(f"{prefix}-{name}", Consumed(serde, Serdes.json()), Materialized(f"by_{name}"))
    builder.table(f"{prefix}-odd", Consumed(Serdes.json(), Serdes.json()), Materialized("odd"))
    builder.global_table(f"{prefix}-places", Consumed(Serdes.string(), Serdes.json()), Materialized("places"))
    return builder.build()


def counter(topic: str) -> Topology:
    """An application with one store, `n`: how many records each key has."""
    builder = StreamsBuilder()
    builder.stream(topic, Consumed(Serdes.string(), Serdes.string())).group_by_key().count("n")
    return builder.build()
