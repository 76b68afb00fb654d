"""Orders whose counts and revenue are known."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal

from examples.orders.models import Order, OrderLineItem, OrderType

START = datetime.now(timezone.utc).replace(second=0, microsecond=0) - timedelta(minutes=5)
"""When the orders begin: Kafka deletes windows that are long past."""
G, R = OrderType.GENERAL, OrderType.RESTAURANT
SALES = [  # location, type, amount, seconds after the start
    ("store_1234", G, "10.10", 1),
    ("store_1234", G, "0.20", 14),
    ("store_1234", G, "5.00", 16),
    ("store_1234", R, "7.77", 2),
    ("store_4567", G, "1.00", 3),
    ("store_7890", R, "99.99", 31),
]


def sale(location: str, kind: OrderType, amount: str, seconds: int) -> Order:
    items = [OrderLineItem("Milk", 1, Decimal(amount))]
    return Order(1, location, Decimal(amount), kind, items, START + timedelta(seconds=seconds))


def at(seconds: int) -> str:
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
