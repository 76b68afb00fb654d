"""The orders that the demo makes."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from itertools import islice
from random import Random

from examples.orders import topology
from examples.orders.generator import SHOPS, messages
from examples.orders.models import Order
from examples.orders.pipeline import DEAD_LETTERS, config, order_json
from headrace import Serdes
from headrace.cli.feeding import Message
from headrace.testing import TopologyTestDriver

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)


def generated(count: int, seed: int = 1, bad_every: int | None = 25) -> list[Message]:
    return list(islice(messages(Random(seed), lambda: NOON, bad_every), count))


def read(message: Message) -> Order:
    order = order_json.deserialize(message.value)
    assert order is not None
    return order


def test_the_same_seed_gives_the_same_messages() -> None:
    assert generated(100) == generated(100)
    assert generated(100) != generated(100, seed=2)


def test_the_items_of_an_order_add_up_to_its_amount() -> None:
    orders = [read(each) for each in generated(200, bad_every=None)[len(SHOPS) :]]

    assert len(orders) == 195
    assert all(sum(item.amount for item in order.order_line_items) == order.final_amount for order in orders)


def test_every_order_is_counted_or_a_dead_letter() -> None:
    raw = Serdes.bytes()
    with TopologyTestDriver(topology(), config) as driver:
        for message in generated(len(SHOPS) + 500):
            driver.input_topic(message.topic, key=raw, value=raw).pipe(message.key, message.value, timestamp=0)

        assert len(driver.output_topic(DEAD_LETTERS, key=raw, value=raw)) == 500 // 25
        counted, revenue = 0, Decimal(0)
        for name in ("general_orders_revenue", "restaurant_orders_revenue"):
            for _, total in driver.store(name).all():
                counted += total.running_order_count
                revenue += total.running_revenue
        good = [each for number, each in enumerate(generated(505)[5:], 1) if number % 25]
        assert counted == len(good) == 480
        assert revenue == sum(read(each).final_amount for each in good)
