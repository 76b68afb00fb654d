"""What the two sides of a foreign key join send each other, and the key of its subscriptions.

A hash is 16 bytes, as `headrace.serdes.hashing.murmur3_128` gives them.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from headrace.errors import SerializationError
from headrace.serdes.forms.sized import pack_sized, unpack_sized

_NO_HASH = 0x80
_SUBSCRIPTION_VERSION = 1
_RESPONSE_VERSION = 0
_HASH_SIZE = 16
_PARTITION = struct.Struct(">i")


class Instruction(IntEnum):
    """What the foreign side is to do with a subscription."""

    DELETE_KEY_NO_PROPAGATE = 0
    DELETE_KEY_AND_PROPAGATE = 1
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3


_INSTRUCTIONS = {instruction.value: instruction for instruction in Instruction}


class Subscription(NamedTuple):
    """A row of the left table that asks for a row of the right one."""

    hash: bytes | None
    instruction: Instruction
    primary_key: bytes
    primary_partition: int | None
    version: int = _SUBSCRIPTION_VERSION


class Response(NamedTuple):
    """The right table's row, for the left row whose value had this hash."""

    hash: bytes | None
    value: bytes | None
    version: int = _RESPONSE_VERSION


def pack_subscription(
    hash: bytes | None, instruction: Instruction, primary_key: bytes, primary_partition: int
) -> bytes:
    """Version and "no hash" flag in a byte, instruction, hash, primary key, its partition."""
    if hash is None:
        return bytes((_SUBSCRIPTION_VERSION | _NO_HASH, instruction)) + primary_key + _PARTITION.pack(primary_partition)
    return b"".join(
        (bytes((_SUBSCRIPTION_VERSION, instruction)), hash, primary_key, _PARTITION.pack(primary_partition))
    )


def unpack_subscription(data: bytes) -> Subscription:
    """The subscription; version 0, which older versions wrote, has no partition."""
    version, hash, position = _unpack_version_and_hash(data, "SubscriptionWrapper", _SUBSCRIPTION_VERSION, 2)
    instruction = _INSTRUCTIONS.get(data[1])
    if instruction is None:
        raise SerializationError(f"Unknown instruction byte value = {data[1]}")
    if version == 0:
        return Subscription(hash, instruction, data[position:], None, version)
    if len(data) < position + 4:
        raise SerializationError("SubscriptionWrapper ends within the primary partition")
    partition: int = _PARTITION.unpack_from(data, len(data) - 4)[0]
    return Subscription(hash, instruction, data[position:-4], partition, version)


def pack_response(hash: bytes | None, value: bytes | None) -> bytes:
    """Version and "no hash" flag in a byte, hash, value; a value of None has no bytes."""
    if hash is None:
        return bytes((_RESPONSE_VERSION | _NO_HASH,)) + (value or b"")
    return b"".join((bytes((_RESPONSE_VERSION,)), hash, value or b""))


def unpack_response(data: bytes) -> Response:
    """The response. An empty value reads as None, as in Kafka Streams."""
    version, hash, position = _unpack_version_and_hash(data, "SubscriptionResponseWrapper", _RESPONSE_VERSION, 1)
    return Response(hash, data[position:] or None, version)


def pack_combined_key(foreign_key: bytes, primary_key: bytes) -> bytes:
    """A key of the subscription store: length of the foreign key, foreign key, primary key."""
    return pack_sized(foreign_key) + primary_key


def unpack_combined_key(data: bytes) -> tuple[bytes, bytes]:
    """The foreign key and the primary key."""
    foreign_key, position = unpack_sized(data, 0)
    if foreign_key is None:
        raise SerializationError("A combined key has no foreign key")
    return foreign_key, data[position:]


def combined_key_prefix(foreign_key: bytes) -> bytes:
    """What all keys of the subscription store with this foreign key begin with."""
    return pack_sized(foreign_key)


def _unpack_version_and_hash(data: bytes, what: str, newest: int, start: int) -> tuple[int, bytes | None, int]:
    if len(data) < start:
        raise SerializationError(f"{what} has at least {start} bytes, but the data has {len(data)}")
    version = data[0] & 0x7F
    if version > newest:
        raise SerializationError(f"{what} does not support version {version}")
    if data[0] & _NO_HASH:
        return version, None, start
    end = start + _HASH_SIZE
    if len(data) < end:
        raise SerializationError(f"{what} ends within the hash")
    return version, data[start:end], end
