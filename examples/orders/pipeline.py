"""Orders, split by type; counted and summed by location, from the beginning and in windows of 15 seconds."""

from __future__ import annotations

from datetime import timedelta

from headrace import (
    Branched,
    BufferConfig,
    Consumed,
    Grouped,
    KGroupedStream,
    KStream,
    KTable,
    LogAndContinue,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    Suppressed,
    TimeWindows,
    Topology,
)
from headrace.timestamps import ConsumedRecord

from .models import EPOCH, Order, OrderType, Revenue, Store, TotalRevenue, TotalRevenueWithAddress

ORDERS, STORES = "orders", "stores"
GENERAL, RESTAURANT = "general_orders", "restaurant_orders"
DEAD_LETTERS = "orders-dead-letters"

WINDOW = timedelta(seconds=15)
GRACE = timedelta(minutes=1)

text = Serdes.string()
number = Serdes.long()
order_json = Serdes.json(Order)
store_json = Serdes.json(Store)
revenue_json = Serdes.json(Revenue)
total_json = Serdes.json(TotalRevenue)
address_json = Serdes.json(TotalRevenueWithAddress)
window_of_text = Serdes.windowed(text, WINDOW)

config = StreamsConfig(
    application_id="orders",
    deserialization_exception_handler=LogAndContinue,
    processing_exception_handler=LogAndContinue,
    dead_letter_queue_topic=DEAD_LETTERS,
)
"""Records that cannot be read or processed go to the dead letter topic, and the pipeline goes on."""


def topology() -> Topology:
    """The application."""
    builder = StreamsBuilder()
    define(builder)
    return builder.build()


def define(builder: StreamsBuilder) -> None:
    """Draws the topology."""
    stores = builder.table(STORES, Consumed(text, store_json), Materialized(STORES, key=text, value=store_json))
    orders = builder.stream(ORDERS, Consumed(text, order_json, timestamp_extractor=ordered_at))
    types = (
        orders.split("orders-")
        .branch(lambda _, order: order.order_type is OrderType.GENERAL, Branched("general"))
        .branch(lambda _, order: order.order_type is OrderType.RESTAURANT, Branched("restaurant"))
        .no_default_branch()
    )
    follow(types["orders-general"], stores, GENERAL)
    follow(types["orders-restaurant"], stores, RESTAURANT)


def follow(orders: KStream, stores: KTable, name: str) -> None:
    """All that is made of the orders of one type; topics and stores are named after it."""
    orders.to(name, Produced(text, order_json))
    orders.map_values(Revenue.of).to(f"{name}_transformed", Produced(text, revenue_json))

    by_location = orders.group_by(lambda _, order: order.location_id, Grouped(text, order_json, name=name))
    from_the_beginning(by_location, stores, name)
    in_windows(by_location, name)


def from_the_beginning(by_location: KGroupedStream, stores: KTable, name: str) -> None:
    """Count and revenue of all orders so far, the revenue with the address of the store."""
    counts = by_location.count(Materialized(f"{name}_count", key=text, value=number))
    counts.to_stream().to(f"{name}_count", Produced(text, number))

    totals = by_location.aggregate(TotalRevenue, add, Materialized(f"{name}_revenue", key=text, value=total_json))
    with_address = totals.join(stores, TotalRevenueWithAddress)
    with_address.to_stream().to(f"{name}_revenue_with_address", Produced(text, address_json))


def in_windows(by_location: KGroupedStream, name: str) -> None:
    """The same by window. The stores have each window as it is now; the topics get it once, when it is closed."""
    windows = by_location.windowed_by(TimeWindows(size=WINDOW, grace=GRACE))
    counts = windows.count(Materialized(f"{name}_count_windows", key=text, value=number))
    totals = windows.aggregate(TotalRevenue, add, Materialized(f"{name}_revenue_windows", key=text, value=total_json))

    closed = Suppressed.until_window_closes(BufferConfig.unbounded())
    counts.suppress(closed).to_stream().to(f"{name}_count_windows_final", Produced(window_of_text, number))
    totals.suppress(closed).to_stream().to(f"{name}_revenue_windows_final", Produced(window_of_text, total_json))


def add(location: str, order: Order, so_far: TotalRevenue) -> TotalRevenue:
    """The total of a location with one more order."""
    return TotalRevenue(location, so_far.running_order_count + 1, so_far.running_revenue + order.final_amount)


def ordered_at(record: ConsumedRecord, partition_time: int) -> int:
    """The time of an order is its own, not that of its way to Kafka."""
    if record.value is None:
        return record.timestamp
    return int((record.value.made_at - EPOCH) // timedelta(milliseconds=1))
