"""Where a record came from, as buffers keep it next to the record."""

from __future__ import annotations

import struct

from headrace.errors import SerializationError
from headrace.record import RecordContext
from headrace.serdes.forms.sized import pack_sized, unpack_size, unpack_sized
from headrace.serdes.utf8 import REPLACE_AS_JAVA

_TIMESTAMP_AND_OFFSET = struct.Struct(">qq")
_PARTITION_AND_HEADER_COUNT = struct.Struct(">ii")


def pack_record_context(context: RecordContext) -> bytes:
    """Timestamp, offset, topic, partition, headers; no topic is an empty one."""
    parts = [
        _TIMESTAMP_AND_OFFSET.pack(context.timestamp, context.offset),
        pack_sized((context.topic or "").encode()),
        _PARTITION_AND_HEADER_COUNT.pack(context.partition, len(context.headers)),
    ]
    for key, value in context.headers:
        parts += (pack_sized(key.encode()), pack_sized(value))
    return b"".join(parts)


def unpack_record_context(data: bytes, position: int = 0) -> tuple[RecordContext, int]:
    """The context at the position, and the position after it."""
    if len(data) < position + 16:
        raise SerializationError(f"A record context has more than the {len(data) - position} bytes that are there")
    timestamp, offset = _TIMESTAMP_AND_OFFSET.unpack_from(data, position)
    topic, position = _unpack_text(data, position + 16)
    partition, position = unpack_size(data, position)
    count, position = unpack_size(data, position)
    headers: list[tuple[str, bytes | None]] = []
    # A count of -1 stands for no headers.
    for _ in range(count):
        key, position = _unpack_text(data, position)
        value, position = unpack_sized(data, position)
        headers.append((key, value))
    return RecordContext(timestamp, tuple(headers), topic or None, partition, offset), position


def resident_size(context: RecordContext) -> int:
    """How many bytes Kafka Streams counts for the context in a buffer's limit."""
    size = 20 + _utf16_length(context.topic or "")
    for key, value in context.headers:
        size += _utf16_length(key) + (0 if value is None else len(value))
    return size


def _unpack_text(data: bytes, position: int) -> tuple[str, int]:
    text, end = unpack_sized(data, position)
    if text is None:
        raise SerializationError(f"Text expected at byte {position} of a record context, but there is none")
    return str(text, "utf-8", REPLACE_AS_JAVA), end


def _utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
