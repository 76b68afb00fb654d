"""What each customer has spent, and how often each product was sold in each minute."""

from __future__ import annotations

from datetime import timedelta

import prices  # type: ignore[import-not-found]

from headrace import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, TimeWindows, Topology, Windowed

from .orders import Order, wait_at_gate

ORDERS, SPENT, SOLD = "shop.orders", "shop.spent", "shop.sold"
MINUTE = TimeWindows(size=timedelta(minutes=1), grace=timedelta(days=1))


def add(customer: str, order: Order, spent: int) -> int:
    price: int = prices.price(order.product)
    return spent + price * order.amount


def name(window: Windowed[str], count: int) -> tuple[str, int]:
    return f"{window.key}@{window.window.start}", count


def topology() -> Topology:
    text, number, order = Serdes.string(), Serdes.long(), Serdes.json(Order)
    builder = StreamsBuilder()
    orders = builder.stream(ORDERS, Consumed(key=text, value=order)).map_values(wait_at_gate)
    spent = orders.group_by_key(Grouped(key=text, value=order)).aggregate(
        lambda: 0, add, Materialized("spent", key=text, value=number)
    )
    spent.to_stream().to(SPENT, Produced(key=text, value=number))
    by_product = orders.group_by(lambda customer, order: order.product, Grouped(key=text, value=order))
    sold = by_product.windowed_by(MINUTE).count(Materialized("sold", key=text, value=number))
    sold.to_stream().map(name).to(SOLD, Produced(key=text, value=number))
    return builder.build()
