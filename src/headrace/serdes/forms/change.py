"""A change of a table's row, as the repartition topic of a grouped table carries it."""

from __future__ import annotations

from headrace.errors import SerializationError
from headrace.record import Change
from headrace.serdes.forms.varint import pack_varint, unpack_varint

_OLD = b"\x00"
_NEW = b"\x01"
_BOTH = b"\x02"


def pack_change(new: bytes | None, old: bytes | None) -> bytes:
    """One value and a flag that says which; for two, the length of the new one comes first."""
    if new is None:
        if old is None:
            raise SerializationError("Both old and new values are null in ChangeSerializer, which is not allowed.")
        return old + _OLD
    if old is None:
        return new + _NEW
    return b"".join((pack_varint(len(new)), new, old, _BOTH))


def unpack_change(data: bytes) -> Change:
    """The change of serialized values; flags 3 to 5, which older versions wrote, carry `is_latest` as well."""
    if not data:
        raise SerializationError("A change has at least its flag, but the data is empty")
    flag = data[-1]
    if flag > 5:
        raise SerializationError(f"Encountered unknown byte value `{flag}` for encodingFlag in ChangedDeserializer.")
    if flag < 3:
        body, is_latest = data[:-1], True
    else:
        flag -= 3
        body, is_latest = data[:-2], _is_latest(data)
    if flag == 0:
        return Change(None, body, is_latest)
    if flag == 1:
        return Change(body, None, is_latest)
    length, start = unpack_varint(body)
    if not 0 <= length <= len(body) - start:
        raise SerializationError(f"A change says that its new value has {length} bytes, but {len(body) - start} follow")
    return Change(body[start : start + length], body[start + length :], is_latest)


def _is_latest(data: bytes) -> bool:
    flag = data[-2:-1]
    if flag == b"\x01":
        return True
    if flag == b"\x00":
        return False
    raise SerializationError(
        f"Encountered unexpected byte value `{flag.hex()}` for isLatestFlag in ChangedDeserializer."
    )
