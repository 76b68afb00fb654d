"""The application whose answers are checked: orders, and what each location has sold, is owed and sells in a while.

Every value has a number that no other attempt to compute it has: what an aborted transaction wrote can be told from
what was committed in its place.
"""

from __future__ import annotations

import random
import secrets
from collections import defaultdict
from datetime import timedelta
from typing import Any, NamedTuple

from headrace import (
    Consumed,
    Grouped,
    Materialized,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    TimeWindows,
    Topology,
)

SOURCE = "histories-orders"
APPLICATION = "histories"
PARTITIONS = 3
REVENUE = "revenue"
"""By location, the orders paid so far and their sum."""
UNPAID = "unpaid"
"""By location, the orders since the last one that was paid, which deletes the entry."""
SALES = "sales"
"""By location and window, the orders paid."""
STORES = (REVENUE, UNPAID, SALES)
LOCATIONS = [f"location-{number}" for number in range(24)]
STRANGERS = ["nobody-1", "nobody-2", "location-", "zone-9"]
"""Keys that never have a value."""
WINDOW_MS = 5_000

_PAID_SHARE = 0.7

text = Serdes.string()
content = Serdes.json()
config = StreamsConfig(application_id=APPLICATION, num_standby_replicas=1, cache_max_bytes=0)


class Order(NamedTuple):
    """A record of the source topic."""

    location: str
    cents: int
    paid: bool

    @property
    def key(self) -> bytes:
        """The record's key."""
        return self.location.encode()

    @property
    def value(self) -> bytes:
        """The record's value."""
        return content.serialize({"cents": self.cents, "paid": self.paid}) or b""


def random_order(chance: random.Random) -> Order:
    """An order of any location."""
    return Order(chance.choice(LOCATIONS), chance.randrange(99, 25_000), chance.random() < _PAID_SHARE)


def changelog(store: str) -> str:
    """The changelog of a store."""
    return f"{APPLICATION}-{store}-changelog"


def topology() -> Topology:
    """The application."""
    builder = StreamsBuilder()
    orders = builder.stream(SOURCE, Consumed(key=text, value=content))
    paid = orders.filter(_is_paid).group_by_key(Grouped(key=text, value=content))
    paid.aggregate(_nothing_sold, _add_sale, Materialized(REVENUE, key=text, value=content))
    orders.group_by_key(Grouped(key=text, value=content)).aggregate(
        _nothing_sold, _add_unpaid, Materialized(UNPAID, key=text, value=content)
    )
    windows = TimeWindows(size=timedelta(milliseconds=WINDOW_MS), grace=timedelta(days=1))
    paid.windowed_by(windows).aggregate(_nothing_sold, _add_sale, Materialized(SALES, key=text, value=content))
    return builder.build()


def _is_paid(_: str, order: dict[str, Any]) -> bool:
    paid: bool = order["paid"]
    return paid


def _nothing_sold() -> dict[str, Any]:
    return {"orders": 0, "cents": 0}


def _add_sale(_: str, order: dict[str, Any], sold: dict[str, Any]) -> dict[str, Any]:
    return {"orders": sold["orders"] + 1, "cents": sold["cents"] + order["cents"], "attempt": secrets.token_hex(4)}


def _add_unpaid(location: str, order: dict[str, Any], owed: dict[str, Any]) -> dict[str, Any] | None:
    return None if order["paid"] else _add_sale(location, order, owed)


class Expected:
    """What the pipeline has to make of the orders that were sent, each taking effect once and in its order."""

    def __init__(self) -> None:
        self.orders = 0
        self.revenue: dict[str, list[tuple[int, int]]] = defaultdict(list)
        """By location, every number of orders and sum that it has one after the other."""

    def add(self, order: Order) -> None:
        """Takes in an order."""
        self.orders += 1
        if order.paid:
            orders, cents = self.revenue[order.location][-1] if self.revenue[order.location] else (0, 0)
            self.revenue[order.location].append((orders + 1, cents + order.cents))
