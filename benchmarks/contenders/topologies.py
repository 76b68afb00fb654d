"""The workloads as Headrace's topologies; java/Contender.java has the same for Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from headrace import (
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    KStream,
    Materialized,
    Produced,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    Topology,
)

WINDOW = timedelta(seconds=15)
# The repartition mixes partitions, so what is late differs from run to run: nothing may be too late.
GRACE = timedelta(days=1)
PAID_WITHIN = timedelta(seconds=5)
# As long as one topic may be read ahead of the other.
PAYMENT_GRACE = timedelta(minutes=1)
RESULTS = 50
"""How many results each order has in the topology with many."""


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


class Store(msgspec.Struct):
    """A store, which is where orders are made."""

    city: str
    region: str


class Placed(msgspec.Struct):
    """An order's revenue, and where it was made."""

    orderId: str
    finalAmount: float
    city: str
    region: str


class Payment(msgspec.Struct):
    """How an order was paid."""

    orderId: str
    method: str
    amount: float


class Paid(msgspec.Struct):
    """An order and how it was paid."""

    locationId: str
    finalAmount: float
    method: str
    amount: float


TEXT = Serdes.string()
ORDER = Serdes.json(Order)
REVENUE = Serdes.json(Revenue)
TOTAL = Serdes.json(Total)
STORE = Serdes.json(Store)
PLACED = Serdes.json(Placed)
PAYMENT = Serdes.json(Payment)
PAID = Serdes.json(Paid)


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


def table_join(source: str, stores: str, output: str) -> Topology:
    """Each order with the city and region of its store."""
    builder = StreamsBuilder()
    table = builder.table(stores, Consumed(key=TEXT, value=STORE), Materialized("stores", key=TEXT, value=STORE))
    (
        _orders(builder, source)
        .join(table, _placed, joined=Joined(key=TEXT, value=ORDER, other=STORE))
        .to(output, Produced(key=TEXT, value=PLACED))
    )
    return builder.build()


def stream_join(source: str, payments: str, output: str) -> Topology:
    """Each order with its payment, if that is within five seconds."""
    builder = StreamsBuilder()
    paid = builder.stream(payments, Consumed(key=TEXT, value=PAYMENT))
    (
        _orders(builder, source)
        .join(
            paid,
            _paid,
            JoinWindows.of(PAID_WITHIN, grace=PAYMENT_GRACE),
            StreamJoined(key=TEXT, value=ORDER, other=PAYMENT),
        )
        .to(output, Produced(key=TEXT, value=PAID))
    )
    return builder.build()


def many(source: str, output: str) -> Topology:
    """Many tiny results of each order: Headrace alone runs it."""
    builder = StreamsBuilder()
    results = [(f"result-{number}", "1") for number in range(RESULTS)]
    builder.stream(source, Consumed(key=TEXT, value=TEXT)).flat_map(lambda key, value: results).to(
        output, Produced(key=TEXT, value=TEXT)
    )
    return builder.build()


def _orders(builder: StreamsBuilder, source: str) -> KStream:
    return builder.stream(source, Consumed(key=TEXT, value=ORDER))


def _add(_: str, order: Order, total: Total) -> Total:
    return Total(total.count + 1, total.revenue + order.finalAmount)


def _placed(order: Order, store: Store) -> Placed:
    return Placed(order.orderId, order.finalAmount, store.city, store.region)


def _paid(order: Order, payment: Payment) -> Paid:
    return Paid(order.locationId, order.finalAmount, payment.method, payment.amount)


TOPOLOGIES: dict[str, Callable[..., Topology]] = {
    "stateless": stateless,
    "totals": totals,
    "windows": windows,
    "table-join": table_join,
    "stream-join": stream_join,
    "many": many,
}
"""Each is called with the names of its topics, the output last."""

RESULT_TYPES: dict[str, Any] = {
    "stateless": Revenue,
    "totals": Total,
    "windows": Total,
    "table-join": Placed,
    "stream-join": Paid,
}
