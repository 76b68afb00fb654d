"""Orders: seeded, so that every run and every contender gets the same records."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from headrace.kafka.clients import ClientSettings
from headrace.kafka.topics import Topics, TopicSpec

SEED = 20_250_101
PARTITIONS = 4
KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}
"""Settings of topics whose records stay, however old their timestamps are."""

_START = datetime(2025, 1, 1, tzinfo=timezone.utc)
_START_MS = int(_START.timestamp() * 1000)
_STEP_MS = 1
_ITEMS = ("Apples", "Bananas", "Bread", "Coffee", "Milk", "Pizza", "Rice", "Tea")
_BASKETS = 4_096
_TOLD_EVERY = 20_000


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
        elapsed = number * _STEP_MS
        if elapsed // 1000 != second:
            second = elapsed // 1000
            clock = (_START + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")
        kind = "GENERAL" if number & 1 else "RESTAURANT"
        value = (
            f'{{"orderId":"{number:08d}","locationId":"store-{location:07d}","finalAmount":{amount},'
            f'"orderType":"{kind}","orderLineItems":{items},"orderedDateTime":"{clock}"}}'
        )
        yield Order(b"%08d" % number, b"store-%07d" % location, value.encode("ascii"), _START_MS + number * _STEP_MS)


def _basket(chance: random.Random) -> tuple[float, str]:
    """What an order comes to, and its items as JSON; amounts are quarters, so that sums are exact in any order."""
    prices = [chance.randrange(4, 400) / 4 for _ in range(2)]
    items = ",".join(
        f'{{"item":"{chance.choice(_ITEMS)}","count":{chance.randrange(1, 4)},"amount":{price}}}' for price in prices
    )
    return sum(prices), f"[{items}]"


class Loader:
    """Makes topics and fills them, quickly."""

    def __init__(self, servers: str) -> None:
        self._topics = Topics(ClientSettings(servers))
        self._errors: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "linger.ms": 20,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": 500_000,
                "log_level": 0,
            }
        )

    def make(self, *names: str, partitions: int = PARTITIONS) -> None:
        """Makes topics that keep all records."""
        self._topics.create([TopicSpec(name, partitions, KEPT) for name in names])

    def load(
        self,
        records: Iterable[Order],
        by_order: str | None,
        by_location: str | None,
        told: Callable[[int], None] = lambda count: None,
    ) -> None:
        """Writes the orders to a topic with the order's id as the key, to one with the location's, or to both."""
        for count, order in enumerate(records, 1):
            if by_order is not None:
                self._send(by_order, order.order_id, order)
            if by_location is not None:
                self._send(by_location, order.location_id, order)
            if count % _TOLD_EVERY == 0:
                told(count)
        self._producer.flush()
        if self._errors:
            raise RuntimeError(f"Kafka did not take all orders: {self._errors[0]}")

    def _send(self, topic: str, key: bytes, order: Order) -> None:
        while True:
            try:
                self._producer.produce(
                    topic, order.value, key, timestamp=order.timestamp, on_delivery=self._on_delivery
                )
                return
            except BufferError:
                self._producer.poll(0.05)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._errors.append(error)
