"""Stores and orders without end, the same for the same seed; now and then an order that nobody can use.

python -m examples.orders.generator sends them to a Kafka whose topics are there.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any

from headrace.cli.feeding import Message, feed
from headrace.kafka.clients import ClientSettings

from .models import Address, Order, OrderLineItem, OrderType, Store
from .pipeline import ORDERS, STORES, order_json, store_json

SHOPS = {
    "store_1234": Address("1 Main Street", "", "Portland", "OR", "97201"),
    "store_4567": Address("22 Lake Avenue", "Suite 3", "Chicago", "IL", "60601"),
    "store_7890": Address("333 Ocean Drive", "", "Miami", "FL", "33139"),
    "store_2468": Address("4 Hill Road", "Floor 2", "Austin", "TX", "78701"),
    "store_1357": Address("55 Bay Street", "", "Boston", "MA", "02108"),
}
GOODS = {
    OrderType.GENERAL: {"Bananas": "0.59", "Milk": "2.49", "Bread": "3.29", "Batteries": "7.95", "Umbrella": "18.00"},
    OrderType.RESTAURANT: {"Soup": "5.50", "Pizza": "12.90", "Salad": "8.75", "Coffee": "2.80", "Cake": "4.20"},
}
LATEST = timedelta(seconds=3)
"""How long an order may be on its way."""


def now() -> datetime:
    return datetime.now(timezone.utc)


def messages(random: Random, clock: Callable[[], datetime] = now, bad_every: int | None = 25) -> Iterator[Message]:
    """All stores, then orders without end; each `bad_every`-th one is a bad one."""
    for location, address in SHOPS.items():
        store = Store(location, address, f"555-{random.randrange(10_000):04}")
        yield Message(STORES, location.encode(), store_json.serialize(store))
    for number in itertools.count(1):
        value = order_json.serialize(make_order(random, number, clock))
        if bad_every is not None and number % bad_every == 0:
            value = spoil(random, json.loads(value or b""))
        yield Message(ORDERS, str(number).encode(), value)


def make_order(random: Random, number: int, clock: Callable[[], datetime]) -> Order:
    """An order of one to three things at any of the stores."""
    kind = random.choice(list(OrderType))
    items = []
    for item, price in random.sample(list(GOODS[kind].items()), random.randint(1, 3)):
        count = random.randint(1, 4)
        items.append(OrderLineItem(item, count, count * Decimal(price)))
    amount = sum((item.amount for item in items), Decimal("0.00"))
    when = clock() - LATEST * random.random()
    return Order(number, random.choice(list(SHOPS)), amount, kind, items, when)


def spoil(random: Random, order: dict[str, Any]) -> bytes:
    """An order with one of the faults that the README tells of."""
    fault = random.choice(["no location", "negative", "unknown type", "broken", "three decimals"])
    if fault == "no location":
        del order["locationId"]
    elif fault == "negative":
        order["finalAmount"] = "-" + order["finalAmount"]
    elif fault == "unknown type":
        order["orderType"] = "WHOLESALE"
    elif fault == "three decimals":
        order["finalAmount"] += "5"
    text = json.dumps(order)
    return (text[: len(text) // 2] if fault == "broken" else text).encode()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.orders.generator", description=__doc__)
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--rate", type=float, default=20.0, help="messages a second")
    parser.add_argument("--messages", type=int, help="how many; without end by default")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    wanted = itertools.islice(messages(Random(given.seed)), given.messages)
    sent = feed(ClientSettings(given.bootstrap_servers), wanted, given.rate)
    print(f"{sent} messages sent.")


if __name__ == "__main__":
    main()
