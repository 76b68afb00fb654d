from __future__ import annotations

import math
import pickle
from decimal import Decimal
from enum import IntEnum
from typing import Any
from uuid import UUID

import pytest

from headrace.errors import SerializationError
from headrace.serdes import Serde, Serdes

UUID_TEXT = "0f8fad5b-d9cb-469f-a165-70867728950e"

FORMS: list[tuple[Serde[Any], Any, bytes]] = [
    (Serdes.string(), "größe", b"gr\xc3\xb6\xc3\x9fe"),
    (Serdes.string(), "", b""),
    (Serdes.bytes(), b"\x00\xff", b"\x00\xff"),
    (Serdes.short(), -2, b"\xff\xfe"),
    (Serdes.integer(), 258, b"\x00\x00\x01\x02"),
    (Serdes.long(), -1, b"\xff" * 8),
    (Serdes.float(), 1.5, b"\x3f\xc0\x00\x00"),
    (Serdes.double(), -2.0, b"\xc0" + bytes(7)),
    (Serdes.boolean(), True, b"\x01"),
    (Serdes.boolean(), False, b"\x00"),
    (Serdes.uuid(), UUID(UUID_TEXT), UUID_TEXT.encode()),
]
ALL = [serde for serde, _, _ in FORMS]


@pytest.mark.parametrize(("serde", "value", "data"), FORMS, ids=repr)
def test_form(serde, value, data):
    assert serde.serialize(value) == data
    assert serde.deserialize(data) == value
    assert type(serde.deserialize(data)) is type(value)


@pytest.mark.parametrize("serde", ALL, ids=repr)
def test_none_stays_none(serde):
    assert serde.serialize(None) is None
    assert serde.deserialize(None) is None


@pytest.mark.parametrize("serde", ALL, ids=repr)
def test_pickled_it_is_the_same_serde(serde):
    assert pickle.loads(pickle.dumps(serde)) is serde


@pytest.mark.parametrize(("serde", "value", "data"), FORMS, ids=repr)
def test_reads_any_buffer(serde, value, data):
    assert serde.deserialize(bytearray(data)) == value
    assert serde.deserialize(memoryview(data)) == value


@pytest.mark.parametrize(("serde", "bits"), [(Serdes.short(), 16), (Serdes.integer(), 32), (Serdes.long(), 64)])
def test_integers_have_the_range_of_java(serde, bits):
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    assert serde.deserialize(serde.serialize(low)) == low
    assert serde.deserialize(serde.serialize(high)) == high
    for outside in (low - 1, high + 1):
        with pytest.raises(SerializationError, match=rf"cannot serialize {outside}: it takes {low} to {high}; use "):
            serde.serialize(outside)


class Level(IntEnum):
    HIGH = 3


def test_what_counts_as_an_int_is_written_as_one():
    assert Serdes.integer().serialize(Level.HIGH) == b"\x00\x00\x00\x03"


def test_numpy_numbers_are_numbers():
    numpy = pytest.importorskip("numpy")
    assert Serdes.long().serialize(numpy.int64(7)) == Serdes.long().serialize(7)
    assert Serdes.double().serialize(numpy.float32(1.5)) == Serdes.double().serialize(1.5)
    with pytest.raises(SerializationError):
        Serdes.long().serialize(numpy.bool_(True))


def test_an_int_is_a_fine_float_and_a_bool_is_neither():
    assert Serdes.double().serialize(2) == Serdes.double().serialize(2.0)
    for serde in (Serdes.double(), Serdes.long()):
        with pytest.raises(SerializationError, match="cannot serialize bool True"):
            serde.serialize(True)


@pytest.mark.parametrize(
    ("serde", "wrong", "message"),
    [
        (Serdes.string(), 5, r"Serdes\.string\(\) cannot serialize int 5: it takes a str; convert"),
        (Serdes.bytes(), "x", r"Serdes\.bytes\(\) cannot serialize str 'x': it takes bytes; encode"),
        (Serdes.long(), "5", r"Serdes\.long\(\) cannot serialize str '5': it takes an int; convert"),
        (Serdes.long(), 5.0, r"Serdes\.long\(\) cannot serialize float 5\.0"),
        (Serdes.double(), Decimal(5), r"Serdes\.double\(\) cannot serialize Decimal .*: it takes a float"),
        (Serdes.boolean(), 1, r"Serdes\.boolean\(\) cannot serialize int 1: it takes True or False"),
        (Serdes.uuid(), UUID_TEXT, r"Serdes\.uuid\(\) cannot serialize str .*: it takes a uuid\.UUID"),
    ],
)
def test_a_wrong_type_is_an_error_that_says_what_to_do(serde, wrong, message):
    with pytest.raises(SerializationError, match=message):
        serde.serialize(wrong)


@pytest.mark.parametrize(
    ("serde", "name", "size"),
    [
        (Serdes.short(), "Short", 2),
        (Serdes.integer(), "Integer", 4),
        (Serdes.long(), "Long", 8),
        (Serdes.float(), "Float", 4),
        (Serdes.double(), "Double", 8),
        (Serdes.boolean(), "Boolean", 1),
    ],
)
def test_data_of_another_size_is_an_error_as_in_kafka(serde, name, size):
    for data in (b"", bytes(size + 1)):
        with pytest.raises(SerializationError, match=f"Size of data received by {name}Deserializer is not {size}"):
            serde.deserialize(data)


def test_a_number_too_large_for_a_float_is_an_error():
    with pytest.raises(SerializationError, match=r"too large for 4 bytes; use Serdes\.double\(\)"):
        Serdes.float().serialize(1e39)
    with pytest.raises(SerializationError, match="too large for 8 bytes"):
        Serdes.double().serialize(10**400)


def test_not_a_number_and_infinity_survive():
    for serde in (Serdes.float(), Serdes.double()):
        assert math.isnan(serde.deserialize(serde.serialize(math.nan)))
        assert serde.deserialize(serde.serialize(-math.inf)) == -math.inf


def test_other_bytes_are_no_boolean():
    with pytest.raises(SerializationError, match="Unexpected byte received by BooleanDeserializer: 2"):
        Serdes.boolean().deserialize(b"\x02")


def test_other_text_is_no_uuid():
    for data in (b"nonsense", b"\xff"):
        with pytest.raises(SerializationError, match="Error parsing data into UUID"):
            Serdes.uuid().deserialize(data)
