"""The orders application on the test driver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway

from examples.orders import topology
from examples.orders.models import (
    Address,
    Order,
    OrderType,
    Revenue,
    Store,
    TotalRevenue,
    TotalRevenueWithAddress,
)
from examples.orders.pipeline import (
    DEAD_LETTERS,
    GENERAL,
    RESTAURANT,
    address_json,
    config,
    define,
    number,
    order_json,
    revenue_json,
    store_json,
    text,
    total_json,
    window_of_text,
)
from headrace import Serdes, Window, Windowed
from headrace.task.handlers import MESSAGE_HEADER
from headrace.testing import TopologyTestDriver
from headrace.testing.topics import TestOutputTopic
from tests.oracle.builder import StreamsBuilder as KafkaStreamsBuilder
from tests.oracle.parity import CACHES, difference
from tests.oracle.scenario import Config, Pipe, Scenario

GOLDEN = Path(__file__).with_name("topology.txt")
STORE = Store("store_1234", Address("1 Main Street", "", "Portland", "OR", "97201"), "555-0100")
RAW = Serdes.bytes()


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(topology(), config) as driver:
        yield driver


def order(amount: str = "27.00", location: str = "store_1234", kind: str = "GENERAL", at: str = "12:00:00") -> Any:
    """An order as it comes in JSON."""
    return {
        "orderId": 12345,
        "locationId": location,
        "finalAmount": amount,
        "orderType": kind,
        "orderLineItems": [{"item": "Bananas", "count": 2, "amount": amount}],
        "orderedDateTime": f"2026-01-05T{at}",
    }


def put(driver: TopologyTestDriver, *orders: Any) -> None:
    """Pipes orders as JSON, or bytes as they are, all at a time that is not that of the orders."""
    topic = driver.input_topic("orders", key=text, value=RAW)
    for each in orders:
        topic.pipe("key", each if isinstance(each, bytes) else json.dumps(each).encode(), timestamp=7)


def put_store(driver: TopologyTestDriver, store: Store = STORE) -> None:
    driver.input_topic("stores", key=text, value=store_json).pipe(store.location_id, store)


def output(driver: TopologyTestDriver, topic: str, value: Any, key: Any = text) -> TestOutputTopic:
    return driver.output_topic(topic, key=key, value=value)


def millis(time: str) -> int:
    """A time of the day of the orders in milliseconds."""
    hours, minutes, seconds = map(int, time.split(":"))
    return 1_767_571_200_000 + ((hours * 60 + minutes) * 60 + seconds) * 1000


def window(start: str, location: str = "store_1234") -> Windowed[str]:
    return Windowed(location, Window(millis(start), millis(start) + 15_000))


def test_orders_are_split_by_type_with_the_time_they_were_made_at(driver: TopologyTestDriver) -> None:
    put(driver, order(at="12:00:01"), order(kind="RESTAURANT", at="12:00:02"))

    general = output(driver, GENERAL, order_json).read_all()
    restaurant = output(driver, RESTAURANT, order_json).read_all()

    assert [(each.value.order_type, each.timestamp) for each in general] == [(OrderType.GENERAL, millis("12:00:01"))]
    assert [(each.value.order_type, each.timestamp) for each in restaurant] == [
        (OrderType.RESTAURANT, millis("12:00:02"))
    ]


def test_an_order_may_say_its_time_zone(driver: TopologyTestDriver) -> None:
    put(driver, {**order(), "orderedDateTime": "2026-01-05T14:00:00.123+02:00"})

    assert output(driver, GENERAL, order_json).read().timestamp == millis("12:00:00") + 123


def test_orders_are_passed_on_as_they_came(driver: TopologyTestDriver) -> None:
    put(driver, order())

    assert json.loads(output(driver, GENERAL, RAW).read_value()) == order()


def test_each_order_becomes_its_revenue(driver: TopologyTestDriver) -> None:
    put(driver, order("27.00"), order("5.50", "store_4567", "RESTAURANT"))

    assert output(driver, "general_orders_transformed", revenue_json).read_values() == [
        Revenue("store_1234", Decimal("27.00"))
    ]
    assert output(driver, "restaurant_orders_transformed", revenue_json).read_values() == [
        Revenue("store_4567", Decimal("5.50"))
    ]


def test_orders_are_counted_by_location(driver: TopologyTestDriver) -> None:
    put(driver, order(), order(), order(location="store_4567"), order(kind="RESTAURANT"))

    assert output(driver, "general_orders_count", number).read_key_values() == [
        ("store_1234", 1),
        ("store_1234", 2),
        ("store_4567", 1),
    ]
    assert driver.store("general_orders_count").get("store_1234") == 2
    assert driver.store("restaurant_orders_count").get("store_1234") == 1


def test_orders_are_repartitioned_by_location_once_for_each_type(driver: TopologyTestDriver) -> None:
    put(driver, order())

    repartitioned = [(topic, record.key) for topic, record in driver.produced() if topic.endswith("-repartition")]
    assert repartitioned == [("orders-general_orders-repartition", b"store_1234")]


def test_revenue_adds_up_to_the_cent(driver: TopologyTestDriver) -> None:
    put(driver, *[order("0.10")] * 3, order("0.20", kind="RESTAURANT"))

    assert driver.store("general_orders_revenue").get("store_1234") == TotalRevenue("store_1234", 3, Decimal("0.30"))
    assert driver.store("restaurant_orders_revenue").get("store_1234") == TotalRevenue("store_1234", 1, Decimal("0.20"))


def test_revenue_is_joined_with_the_store(driver: TopologyTestDriver) -> None:
    joined = output(driver, "general_orders_revenue_with_address", address_json)

    put(driver, order("1.00"))
    assert joined.is_empty

    put_store(driver)
    put(driver, order("2.50"))
    assert joined.read_key_values() == [
        ("store_1234", TotalRevenueWithAddress(TotalRevenue("store_1234", 1, Decimal("1.00")), STORE)),
        ("store_1234", TotalRevenueWithAddress(TotalRevenue("store_1234", 2, Decimal("3.50")), STORE)),
    ]


def test_orders_are_counted_in_windows_of_15_seconds_of_their_own_time(driver: TopologyTestDriver) -> None:
    put(driver, order(at="12:00:01"), order(at="12:00:15"), order(at="12:00:14"))

    counts = driver.store("general_orders_count_windows")
    assert list(counts.all()) == [(window("12:00:00"), 2), (window("12:00:15"), 1)]


def test_revenue_is_summed_in_windows(driver: TopologyTestDriver) -> None:
    put(driver, *(order("1.25", kind="RESTAURANT", at=at) for at in ("12:00:01", "12:00:14", "12:00:15")))

    assert list(driver.store("restaurant_orders_revenue_windows").all()) == [
        (window("12:00:00"), TotalRevenue("store_1234", 2, Decimal("2.50"))),
        (window("12:00:15"), TotalRevenue("store_1234", 1, Decimal("1.25"))),
    ]


def test_a_closed_window_is_sent_once(driver: TopologyTestDriver) -> None:
    counts = output(driver, "general_orders_count_windows_final", number, window_of_text)
    totals = output(driver, "general_orders_revenue_windows_final", total_json, window_of_text)

    put(driver, order("1.00", at="12:00:01"), order("2.00", at="12:01:14"), order("3.00", at="12:00:14"))
    assert counts.is_empty  # an order may be a minute late

    put(driver, order(at="12:01:15"))
    assert counts.read_key_values() == [(window("12:00:00"), 2)]
    assert totals.read_key_values() == [(window("12:00:00"), TotalRevenue("store_1234", 2, Decimal("4.00")))]


def test_an_order_that_is_too_late_for_its_window_still_counts_for_the_total(driver: TopologyTestDriver) -> None:
    put(driver, order(at="12:00:01"), order(at="12:01:15"), order(at="12:00:14"))

    assert driver.store("general_orders_count").get("store_1234") == 3
    assert [count for _, count in driver.store("general_orders_count_windows").all()] == [1, 1]


def without(field: str) -> Any:
    return {name: value for name, value in order().items() if name != field}


def with_item(amount: str) -> Any:
    return {**order(), "orderLineItems": [{"item": "Bananas", "count": 2, "amount": amount}]}


BAD_ORDERS = {
    "no location": (without("locationId"), "locationId"),
    "null for a location": ({**order(), "locationId": None}, "Expected `str`, got `null`"),
    "an empty location": (order(location=""), "an order needs a location"),
    "a blank location": (order(location=" "), "an order needs a location"),
    "a negative amount": (order("-1.00"), "an amount must be from 0.00 to 999999999.99, not -1.00"),
    "an unknown type": (order(kind="WHOLESALE"), "Invalid enum value 'WHOLESALE'"),
    "broken JSON": (b'{"orderId": 12345, "locat', "truncated"),
    "three decimals": (order("1.005"), "an amount has at most two decimals, not 1.005"),
    "three decimals as a number": ({**order(), "finalAmount": 1.005}, "an amount has at most two decimals"),
    "a negative amount of an item": (with_item("-1.00"), "an amount must be from 0.00 to 999999999.99, not -1.00"),
    "three decimals of an item": (with_item("1.005"), "an amount has at most two decimals, not 1.005"),
    "a time that Kafka cannot have": (
        {**order(), "orderedDateTime": "1969-12-31T23:59:59Z"},
        "an order cannot be made before 1970",
    ),
    "no number at all": (order("NaN"), "an amount must be from"),
    "an amount beyond all bounds": (order("1E+30"), "an amount must be from"),
}


@pytest.mark.parametrize(("bad", "message"), BAD_ORDERS.values(), ids=BAD_ORDERS.keys())
def test_a_bad_order_goes_to_the_dead_letters_and_changes_no_total(
    driver: TopologyTestDriver, bad: Any, message: str
) -> None:
    put(driver, order("1.00"), bad, order("2.00"))

    (letter,) = output(driver, DEAD_LETTERS, RAW).read_all()
    assert letter.value == (bad if isinstance(bad, bytes) else json.dumps(bad).encode())
    assert message in (dict(letter.headers)[MESSAGE_HEADER] or b"").decode()
    assert len(output(driver, GENERAL, RAW)) == 2
    assert driver.store("general_orders_revenue").get("store_1234") == TotalRevenue("store_1234", 2, Decimal("3.00"))
    assert list(driver.store("general_orders_count").all()) == [("store_1234", 2)]
    assert list(driver.store("restaurant_orders_count").all()) == []


def test_a_record_without_an_order_goes_to_the_dead_letters(driver: TopologyTestDriver) -> None:
    driver.input_topic("orders", key=text, value=RAW).pipe("key", None)
    put(driver, order("1.00"))

    assert output(driver, DEAD_LETTERS, RAW).read_values() == [None]
    assert driver.store("general_orders_count").get("store_1234") == 1


def test_what_is_written_can_be_read_again(driver: TopologyTestDriver) -> None:
    put(driver, order("1.00"))

    written = output(driver, GENERAL, RAW).read_value()
    assert isinstance(order_json.deserialize(written), Order)


def test_the_topology_is_the_one_that_kafka_streams_describes(gateway: JavaGateway) -> None:
    kafka = KafkaStreamsBuilder(gateway)
    define(kafka)

    described = kafka.build().describe().toString()
    assert str(topology().describe()) == described
    assert GOLDEN.read_text() == described


@pytest.mark.parametrize("cache", CACHES.values(), ids=CACHES.keys())
def test_the_results_are_those_of_kafka_streams(gateway: JavaGateway, cache: int | None) -> None:
    orders = [
        order(amount, location, kind, at)
        for at in ("12:00:01", "12:00:04", "12:00:17", "12:00:13", "12:01:20", "12:00:02", "12:02:40")
        for amount, location, kind in (("1.10", "store_1234", "GENERAL"), ("20", "store_4567", "RESTAURANT"))
    ]
    events = [Pipe("stores", b"store_1234", store_json.serialize(STORE), 0)]
    events += [Pipe("orders", b"key", json.dumps(each).encode(), 7) for each in orders]
    events.insert(9, Pipe("orders", b"key", b"{", 7))
    settings = Config(deserialization="continue", processing="continue", dead_letter_topic=DEAD_LETTERS)

    assert difference(gateway, Scenario("orders", "application", define, events, settings), cache) is None
