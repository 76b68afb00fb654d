"""The workloads as Headrace's topologies; java/Contender.java has the same for Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import msgspec

from headrace import (
    Consumed,
    Grouped,
    KStream,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    TimeWindows,
    Topology,
)

WINDOW = timedelta(seconds=15)
# The repartition mixes partitions, so what is late differs from run to run: nothing may be too late.
GRACE = timedelta(days=1)


class LineItem(msgspec.Struct):
    """A line of an order."""

    item: str
    count: int
    amount: float


class Order(msgspec.Struct):
    """An order, under the names of its JSON."""

    orderId: str
    locationId: str
    finalAmount: float
    orderType: str
    orderLineItems: list[LineItem]
    orderedDateTime: str


class Revenue(msgspec.Struct):
    """What an order brought."""

    locationId: str
    finalAmount: float
    items: int


class Total(msgspec.Struct):
    """How many orders there were, and what they brought."""

    count: int
    revenue: float


TEXT = Serdes.string()
ORDER = Serdes.json(Order)
REVENUE = Serdes.json(Revenue)
TOTAL = Serdes.json(Total)


def stateless(source: str, output: str) -> Topology:
    """The revenue of each order of the general kind."""
    builder = StreamsBuilder()
    (
        _orders(builder, source)
        .filter(lambda _, order: order.orderType == "GENERAL")
        .map_values(lambda order: Revenue(order.locationId, order.finalAmount, len(order.orderLineItems)))
        .to(output, Produced(key=TEXT, value=REVENUE))
    )
    return builder.build()


def totals(source: str, output: str) -> Topology:
    """The running count and revenue of each key."""
    builder = StreamsBuilder()
    (
        _orders(builder, source)
        .group_by_key()
        .aggregate(lambda: Total(0, 0.0), _add, Materialized("totals", key=TEXT, value=TOTAL))
        .to_stream()
        .to(output, Produced(key=TEXT, value=TOTAL))
    )
    return builder.build()


def windows(source: str, output: str) -> Topology:
    """The count and revenue of each location in windows of 15 seconds, after a repartition."""
    builder = StreamsBuilder()
    (
        _orders(builder, source)
        .group_by(lambda _, order: order.locationId, Grouped(key=TEXT, value=ORDER, name="by-location"))
        .windowed_by(TimeWindows(size=WINDOW, grace=GRACE))
        .aggregate(lambda: Total(0, 0.0), _add, Materialized("totals", key=TEXT, value=TOTAL))
        .to_stream()
        .to(output, Produced(key=Serdes.windowed(TEXT, WINDOW), value=TOTAL))
    )
    return builder.build()


def _orders(builder: StreamsBuilder, source: str) -> KStream:
    return builder.stream(source, Consumed(key=TEXT, value=ORDER))


def _add(_: str, order: Order, total: Total) -> Total:
    return Total(total.count + 1, total.revenue + order.finalAmount)


TOPOLOGIES: dict[str, Callable[[str, str], Topology]] = {
    "stateless": stateless,
    "totals": totals,
    "windows": windows,
}
