"""Integers in a variable number of bytes, zig-zag as in Kafka's records."""

from __future__ import annotations

from headrace.errors import SerializationError


def pack_varint(value: int) -> bytes:
    """The bytes of a signed 32-bit integer, one to five."""
    rest = (value << 1 ^ value >> 31) & 0xFFFFFFFF
    if rest < 0x80:
        return bytes((rest,))
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def unpack_varint(data: bytes, position: int = 0) -> tuple[int, int]:
    """The integer at the position, and the position after it."""
    rest = shift = 0
    while True:
        if shift > 28 or position >= len(data):
            raise SerializationError("Varint does not end within 5 bytes")
        byte = data[position]
        position += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            return rest >> 1 ^ -(rest & 1), position
        shift += 7
