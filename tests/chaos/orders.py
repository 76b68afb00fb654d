"""The orders that flow while things are killed, what is made of them, and what must come out."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from headrace import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    TimeWindows,
    Topology,
)
from headrace.testing import TopologyTestDriver

OUTPUTS = ("large", "small", "revenue", "unpaid", "windows")
STORES = ("revenue", "unpaid", "windows")
PARTITIONS = 4

_LOCATIONS = 200
_PRODUCTS = 40
_LARGE_CENTS = 20_000
_HOUR_MS = 3_600_000
_APART_MS = 10
_WINDOW = timedelta(minutes=1)

Update = tuple[bytes | None, int | None]
"""A value and its timestamp."""
Updates = dict[bytes, list[Update]]
"""The updates of each key, in their order."""


@dataclass(frozen=True)
class Order:
    """A record of the source topic."""

    key: bytes
    value: bytes
    timestamp: int


@dataclass(frozen=True)
class Expected:
    """What an undisturbed run gives: the updates of each output and of each store's changelog."""

    outputs: dict[str, Updates]
    changelogs: dict[str, Updates]


def topology(source: str, application_id: str) -> Topology:
    """Sorts orders by size, adds up each location's revenue, and counts each product's orders a minute.

    A location's unpaid orders are counted until the next one that is paid, which deletes the count.
    """
    text, number, order = Serdes.string(), Serdes.long(), Serdes.json()
    builder = StreamsBuilder()
    orders = builder.stream(source, Consumed(key=text, value=order))
    paid = orders.filter(_is_paid)
    branches = paid.split("size-").branch(_is_large, "large").default_branch("small")
    for size in ("large", "small"):
        branches[f"size-{size}"].to(f"{application_id}.{size}", Produced(key=text, value=order))
    revenue = paid.group_by_key(Grouped(key=text, value=order)).aggregate(
        _nothing_sold, _add_sale, Materialized("revenue", key=text, value=order)
    )
    revenue.to_stream().to(f"{application_id}.revenue", Produced(key=text, value=order))
    unpaid = orders.group_by_key(Grouped(key=text, value=order)).aggregate(
        _none_unpaid, _count_unpaid, Materialized("unpaid", key=text, value=number)
    )
    unpaid.to_stream().to(f"{application_id}.unpaid", Produced(key=text, value=number))
    windows = TimeWindows(size=_WINDOW, grace=timedelta(days=1))
    counts = (
        paid.group_by(_product, Grouped(key=text, value=order))
        .windowed_by(windows)
        .count(Materialized("windows", key=text, value=number))
    )
    windowed = Serdes.windowed(text, _WINDOW)
    counts.to_stream().to(f"{application_id}.windows", Produced(key=windowed, value=number))
    return builder.build()


def make_orders(count: int) -> list[Order]:
    """Orders of the last hours, the same ones every time but for their dates."""
    chance = random.Random(count)
    serialize = Serdes.json().serialize
    start = (int(time.time() * 1000) // _HOUR_MS - 1) * _HOUR_MS
    orders = []
    for number in range(count):
        location = f"location-{chance.randrange(_LOCATIONS)}"
        content = {
            "order": number,
            "product": f"product-{chance.randrange(_PRODUCTS)}",
            "cents": chance.randrange(99, 25_000),
            "paid": chance.random() < 0.9,
        }
        orders.append(Order(location.encode(), serialize(content) or b"", start + number * _APART_MS))
    return orders


def expect(orders: list[Order]) -> Expected:
    """What the test driver makes of the orders, every update shown."""
    name = "expected"
    config = StreamsConfig(application_id=name, cache_max_bytes=0)
    found: dict[str, Updates] = defaultdict(lambda: defaultdict(list))
    with TopologyTestDriver(topology("orders", name), config, initial_wall_clock=0) as driver:
        source = driver.input_topic("orders", Serdes.bytes(), Serdes.bytes())
        for order in orders:
            source.pipe(order.key, order.value, order.timestamp)
        for topic, record in driver.produced():
            found[topic][record.key or b""].append((record.value, record.timestamp))
    return Expected(
        {output: found[f"{name}.{output}"] for output in OUTPUTS},
        {store: found[f"{name}-{store}-changelog"] for store in STORES},
    )


def _is_paid(_: str, order: dict[str, Any]) -> bool:
    paid: bool = order["paid"]
    return paid


def _is_large(_: str, order: dict[str, Any]) -> bool:
    large: bool = order["cents"] >= _LARGE_CENTS
    return large


def _product(_: str, order: dict[str, Any]) -> str:
    product: str = order["product"]
    return product


def _nothing_sold() -> dict[str, int]:
    return {"orders": 0, "cents": 0}


def _add_sale(_: str, order: dict[str, Any], sold: dict[str, int]) -> dict[str, int]:
    return {"orders": sold["orders"] + 1, "cents": sold["cents"] + order["cents"]}


def _none_unpaid() -> int:
    return 0


def _count_unpaid(_: str, order: dict[str, Any], unpaid: int) -> int | None:
    return None if order["paid"] else unpaid + 1
