"""Stores and payments: what orders are joined with, seeded as the orders are."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator

from benchmarks.loading import Record
from benchmarks.orders import SEED, START_MS, STEP_MS

LATEST_PAYMENT_MS = 6_000
"""A payment is at most so long after its order: some are too late for a window of five seconds."""

_CITIES = ("Amsterdam", "Berlin", "Chicago", "Delhi", "Lima", "Nairobi", "Osaka", "Sydney")
_REGIONS = ("north", "east", "south", "west")
_METHODS = ("CARD", "CASH", "TRANSFER", "VOUCHER")


def stores(count: int) -> Iterator[Record]:
    """As many stores, all of them older than the first order, so that they are in the table before it."""
    chance = random.Random(SEED)
    numbers = list(range(count))
    chance.shuffle(numbers)
    for position, number in enumerate(numbers):
        value = f'{{"city":"{chance.choice(_CITIES)}","region":"{chance.choice(_REGIONS)}"}}'
        yield Record(b"store-%07d" % number, value.encode("ascii"), START_MS - count + position)


def payments(count: int) -> Iterator[Record]:
    """A payment of each of as many orders, in the order of their times."""
    chance = random.Random(SEED)
    coming: list[tuple[int, int]] = []
    for number in range(count):
        ordered = START_MS + number * STEP_MS
        while coming and coming[0][0] < ordered:
            yield _payment(chance, *heapq.heappop(coming))
        heapq.heappush(coming, (ordered + chance.randrange(LATEST_PAYMENT_MS + 1), number))
    while coming:
        yield _payment(chance, *heapq.heappop(coming))


def _payment(chance: random.Random, at: int, number: int) -> Record:
    method, amount = chance.choice(_METHODS), chance.randrange(4, 800) / 4
    value = f'{{"orderId":"{number:08d}","method":"{method}","amount":{amount}}}'
    return Record(b"%08d" % number, value.encode("ascii"), at)
