"""Orders: seeded, so that every run and every contender gets the same records."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

SEED = 20_250_101
PARTITIONS = 4

START = datetime(2025, 1, 1, tzinfo=timezone.utc)
START_MS = int(START.timestamp() * 1000)
STEP_MS = 1
"""Between two orders."""
_ITEMS = ("Apples", "Bananas", "Bread", "Coffee", "Milk", "Pizza", "Rice", "Tea")
_BASKETS = 4_096


class Order(NamedTuple):
    """An order as it goes to Kafka."""

    order_id: bytes
    location_id: bytes
    value: bytes
    timestamp: int


def orders(count: int, locations: int) -> Iterator[Order]:
    """As many orders, a millisecond apart, from as many locations at random."""
    chance = random.Random(SEED)
    return _orders(chance, (int(chance.random() * locations) for _ in range(count)))


def orders_of_all(locations: int) -> Iterator[Order]:
    """One order from each of the locations, in random order."""
    chance = random.Random(SEED)
    numbers = list(range(locations))
    chance.shuffle(numbers)
    return _orders(chance, numbers)


def orders_of(numbers: Iterable[int]) -> Iterator[Order]:
    """An order from each location in turn."""
    return _orders(random.Random(SEED), numbers)


def _orders(chance: random.Random, numbers: Iterable[int]) -> Iterator[Order]:
    baskets = [_basket(chance) for _ in range(_BASKETS)]
    second, clock = -1, ""
    for number, location in enumerate(numbers):
        amount, items = baskets[int(chance.random() * _BASKETS)]
        elapsed = number * STEP_MS
        if elapsed // 1000 != second:
            second = elapsed // 1000
            clock = (START + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")
        kind = "GENERAL" if number & 1 else "RESTAURANT"
        value = (
            f'{{"orderId":"{number:08d}","locationId":"store-{location:07d}","finalAmount":{amount},'
            f'"orderType":"{kind}","orderLineItems":{items},"orderedDateTime":"{clock}"}}'
        )
        yield Order(b"%08d" % number, b"store-%07d" % location, value.encode("ascii"), START_MS + number * STEP_MS)


def _basket(chance: random.Random) -> tuple[float, str]:
    """What an order comes to, and its items as JSON; amounts are quarters, so that sums are exact in any order."""
    prices = [chance.randrange(4, 400) / 4 for _ in range(2)]
    items = ",".join(
        f'{{"item":"{chance.choice(_ITEMS)}","count":{chance.randrange(1, 4)},"amount":{price}}}' for price in prices
    )
    return sum(prices), f"[{items}]"
