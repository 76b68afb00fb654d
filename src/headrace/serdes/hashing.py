"""The hashes of Kafka: murmur2 chooses a key's partition, murmur3 compares a join's values."""

from __future__ import annotations

import struct
from functools import lru_cache

_M32 = 0xFFFFFFFF
_M64 = 0xFFFFFFFFFFFFFFFF
_LONG_PAIR = struct.Struct(">QQ")


def murmur2(data: bytes) -> int:
    """The 32-bit hash of Kafka's default partitioner, signed as in Java."""
    length = len(data)
    h = 0x9747B28C ^ length
    whole = length >> 2
    for k in struct.unpack_from(f"<{whole}I", data):
        k = (k * 0x5BD1E995) & _M32
        k ^= k >> 24
        h = ((h * 0x5BD1E995) ^ (k * 0x5BD1E995)) & _M32
    if length & 3:
        h = ((h ^ int.from_bytes(data[whole << 2 :], "little")) * 0x5BD1E995) & _M32
    h = ((h ^ (h >> 13)) * 0x5BD1E995) & _M32
    h ^= h >> 15
    return h - 0x100000000 if h & 0x80000000 else h


# Hashing takes microseconds in Python and keys repeat.
@lru_cache(maxsize=16384)
def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition where Kafka's default partitioner puts a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur3_128(data: bytes) -> bytes:
    """The 16 bytes of the 128-bit hash as a foreign key join writes them: two longs, big endian."""
    length = len(data)
    h1 = h2 = 104729
    whole = length >> 4
    words = iter(struct.unpack_from(f"<{whole * 2}Q", data))
    for k1, k2 in zip(words, words, strict=True):
        h1 = (_rotate(h1 ^ _scramble1(k1), 27) + h2) * 5 + 0x52DCE729 & _M64
        h2 = (_rotate(h2 ^ _scramble2(k2), 31) + h1) * 5 + 0x38495AB5 & _M64
    if length & 15:
        tail = int.from_bytes(data[whole << 4 :], "little")
        h2 ^= _scramble2(tail >> 64)
        h1 ^= _scramble1(tail & _M64)
    h1 ^= length
    h2 ^= length
    h1 = (h1 + h2) & _M64
    h2 = (h2 + h1) & _M64
    h1 = _finish(h1)
    h2 = _finish(h2)
    h1 = (h1 + h2) & _M64
    return _LONG_PAIR.pack(h1, (h2 + h1) & _M64)


def _rotate(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & _M64


def _scramble1(k: int) -> int:
    return _rotate(k * 0x87C37B91114253D5 & _M64, 31) * 0x4CF5AD432745937F & _M64


def _scramble2(k: int) -> int:
    return _rotate(k * 0x4CF5AD432745937F & _M64, 33) * 0x87C37B91114253D5 & _M64


def _finish(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & _M64
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & _M64
    return h ^ h >> 33
