"""Where Spark's shuffle puts a number: its hash, which is Murmur3 of 32 bits, modulo the partitions."""

from __future__ import annotations

_M32 = 0xFFFFFFFF
_SEED = 42


def slots_for(width: int) -> list[int]:
    """For each partition of a shuffle, a number that Spark's hash puts there."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < width:
        found.setdefault(spark_hash(number) % width, number)
        number += 1
    return [found[place] for place in range(width)]


def spark_hash(number: int) -> int:
    """What Spark's `hash` makes of an int, signed as in Java."""
    k = _rotate((number & _M32) * 0xCC9E2D51 & _M32, 15) * 0x1B873593 & _M32
    h = (_rotate(_SEED ^ k, 13) * 5 + 0xE6546B64) & _M32
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & _M32
    h = (h ^ h >> 13) * 0xC2B2AE35 & _M32
    h ^= h >> 16
    return h - 0x100000000 if h & 0x80000000 else h


def _rotate(x: int, by: int) -> int:
    return (x << by | x >> (32 - by)) & _M32
