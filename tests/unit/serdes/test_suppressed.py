"""The versions of a changelog record of `suppress`, read as Kafka Streams' own classes read them."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import SerializationError
from headrace.record import RecordContext
from headrace.serdes.forms.buffer_value import BufferValue, pack_buffered
from headrace.serdes.forms.record_context import pack_record_context
from headrace.serdes.forms.sized import pack_sized
from headrace.serdes.forms.suppressed import unpack_suppressed
from tests.unit.serdes.java_access import STATE, call

CONTEXT = RecordContext(17, (("h", b"x"), ("n", None)), "größe", 2, 3)
TIME = 123
HELPER = f"{STATE}.TimeOrderedKeyValueBufferChangelogDeserializationHelper"

values = st.none() | st.binary(max_size=40)
few = settings(max_examples=30, deadline=None)


def version_0(old: bytes | None, new: bytes | None) -> bytes:
    return struct.pack(">q", TIME) + pack_sized(old) + pack_sized(new)


def version_1(old: bytes | None, new: bytes | None) -> bytes:
    return struct.pack(">q", TIME) + pack_record_context(CONTEXT) + pack_sized(pack_sized(old) + pack_sized(new))


def version_2(prior: bytes | None, old: bytes | None, new: bytes | None) -> bytes:
    change = pack_sized(pack_sized(old) + pack_sized(new))
    return pack_record_context(CONTEXT) + change + pack_sized(prior) + struct.pack(">q", TIME)


def read(data: bytes, version: int | None, prior: bytes | None = None) -> Any:
    headers = () if version is None else (("v", b"\x00"), ("v", bytes((version,))))
    (known, old, new, context), time = unpack_suppressed(data, 99, headers, prior)
    return known, old, new, context.timestamp, context.topic, context.headers, time


def read_by_kafka(jvm: Any, data: bytes, method: str, *prior: bytes | None) -> Any:
    common = jvm.org.apache.kafka.common
    none = jvm.java.util.Optional.empty()
    record = jvm.org.apache.kafka.clients.consumer.ConsumerRecord(
        "log", 0, 5, 99, common.record.TimestampType.CREATE_TIME, 1, 1, b"k", data,
        common.header.internals.RecordHeaders(), none,
    )  # fmt: skip
    result = call(jvm, HELPER, None, method, record, common.utils.Bytes.wrap(b"k"), *prior)
    name = f"{HELPER}$DeserializationResult"
    value = call(jvm, name, result, "bufferValue")
    known, old, new = (
        None if found is None else bytes(found)
        for found in (call(jvm, f"{STATE}.BufferValue", value, f"{what}Value") for what in ("prior", "old", "new"))
    )
    context = call(jvm, f"{STATE}.BufferValue", value, "context")
    found = tuple((header.key(), header.value()) for header in context.headers().toArray())
    return known, old, new, context.timestamp(), context.topic(), found, call(jvm, name, result, "time")


@few
@given(old=values, new=values, prior=values)
def test_version_0_has_no_context(jvm, old, new, prior):
    data = version_0(old, new)
    expected = read_by_kafka(jvm, data, "deserializeV0", prior)
    # Kafka Streams takes the changelog itself for the topic.
    assert read(data, None, prior) == (*expected[:4], None, *expected[5:])


@few
@given(old=values, new=values, prior=values)
def test_version_1_has_no_prior_value(jvm, old, new, prior):
    data = version_1(old, new)
    assert read(data, 1, prior) == read_by_kafka(jvm, data, "deserializeV1", prior)


@few
@given(prior=values, old=values, new=values)
def test_version_2(jvm, prior, old, new):
    data = version_2(prior, old, new)
    assert read(data, 2) == read_by_kafka(jvm, data, "duckTypeV2")


@few
@given(prior=values, old=values, new=values)
def test_version_3_that_says_2(jvm, prior, old, new):
    data = pack_buffered(BufferValue(prior, old, new, CONTEXT), TIME)
    assert read(data, 2) == read_by_kafka(jvm, data, "duckTypeV2")
    assert read(data, 3) == read_by_kafka(jvm, data, "deserializeV3")


def test_other_versions_and_data_cut_short_are_errors():
    for unknown in (0, 4):
        with pytest.raises(SerializationError, match="unknown version"):
            read(b"", unknown)
    for version, data in ((None, version_0(b"o", b"n")), (1, version_1(b"o", b"n")), (2, version_2(b"p", b"o", b"n"))):
        for size in range(len(data)):
            with pytest.raises(SerializationError):
                read(data[:size], version)
