"""Every binary form is what Kafka's own classes write."""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError

from headrace.record import RecordContext
from headrace.serdes import Serdes
from headrace.serdes.forms.buffer_value import (
    SUPPRESS_CHANGELOG_HEADERS,
    BufferValue,
    pack_buffer_value,
    suppressed_size,
)
from headrace.serdes.forms.change import pack_change, unpack_change
from headrace.serdes.forms.foreign_key import (
    Instruction,
    combined_key_prefix,
    pack_combined_key,
    pack_response,
    pack_subscription,
)
from headrace.serdes.forms.list_value import append_to_list, pack_list
from headrace.serdes.forms.outer_join import pack_join_side_key, pack_join_side_value
from headrace.serdes.forms.record_context import pack_record_context, resident_size
from headrace.serdes.forms.session_key import pack_session_key
from headrace.serdes.forms.timestamped import pack_timestamped
from headrace.serdes.forms.varint import pack_varint
from headrace.serdes.forms.window_key import pack_time_first_key, pack_window_store_key
from headrace.serdes.hashing import murmur2, murmur3_128, partition_for_key
from headrace.windowed import Window, Windowed
from tests.unit.serdes.java_access import FOREIGN_KEY, STATE, array, call, construct, longs

data = st.binary(max_size=80)
some_data = st.binary(min_size=1, max_size=80)
long = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
time = st.integers(0, 2**62)
hashes = st.none() | st.binary(min_size=16, max_size=16)
text = st.text(max_size=30)
headers = st.lists(st.tuples(text, st.none() | data), max_size=3).map(tuple)
few = settings(max_examples=40, deadline=None)

CONTEXT = RecordContext(17, (("h", b"x"), ("n", None)), "größe", 2, 3)


def java_headers(jvm: Any, headers: Any = ()) -> Any:
    result = jvm.org.apache.kafka.common.header.internals.RecordHeaders()
    for key, value in headers:
        result.add(key, value)
    return result


def java_context(jvm: Any, context: RecordContext) -> Any:
    return jvm.org.apache.kafka.streams.processor.internals.ProcessorRecordContext(
        context.timestamp, context.offset, context.partition, context.topic, java_headers(jvm, context.headers)
    )


class TopicName:
    """A Java Supplier of a topic name."""

    def get(self) -> str:
        return "topic"

    class Java:
        implements = ("java.util.function.Supplier",)


# --- public serdes


@pytest.mark.parametrize(
    ("serde", "kafka_name", "values"),
    [
        (Serdes.string(), "String", ["", "abc", "größe", "\U0001f600"]),
        (Serdes.short(), "Short", [0, 1, -1, 2**15 - 1, -(2**15)]),
        (Serdes.integer(), "Integer", [0, 1, -1, 2**31 - 1, -(2**31)]),
        (Serdes.long(), "Long", [0, 1, -1, 2**63 - 1, -(2**63)]),
        (Serdes.float(), "Float", [0.0, -0.0, 1.5, float("inf"), -1234.5, 2.0**-10]),
        (Serdes.double(), "Double", [0.0, -0.0, 1.1, float("-inf"), 5e-324]),
        (Serdes.boolean(), "Boolean", [True, False]),
        (Serdes.bytes(), "ByteArray", [b"", b"\x00\xff"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_single_values(jvm, serde, kafka_name, values):
    package = jvm.org.apache.kafka.common.serialization
    serializer = getattr(package, f"{kafka_name}Serializer")()
    deserializer = getattr(package, f"{kafka_name}Deserializer")()
    for value in values:
        form = serde.serialize(value)
        assert form == serializer.serialize("topic", value)
        assert deserializer.deserialize("topic", form) == value
        assert serde.deserialize(form) == value


def test_uuid(jvm):
    value = "0f8fad5b-d9cb-469f-a165-70867728950e"
    serializer = jvm.org.apache.kafka.common.serialization.UUIDSerializer()
    assert Serdes.uuid().serialize(UUID(value)) == serializer.serialize("topic", jvm.java.util.UUID.fromString(value))


troublemakers = st.lists(st.sampled_from(b"\x41\x80\x90\x9f\xa0\xbf\xc0\xc3\xe0\xe2\xed\xf0\xf4\xf5\xff"), max_size=8)


@given(troublemakers.map(bytes))
@example(b"\xed\xa0\xbd\xed\xb8\x80")
@example(b"\xed\xa0")
@example(b"\xed\xa0A")
@settings(max_examples=300, deadline=None)
def test_malformed_text_reads_as_in_java(jvm, form):
    java = jvm.org.apache.kafka.common.serialization.StringDeserializer().deserialize("topic", form)
    assert Serdes.string().deserialize(form) == java


def test_a_lone_surrogate_is_written_as_in_java(jvm):
    # py4j cannot carry one, so the text is made and encoded in Java.
    java_text = jvm.java.lang.StringBuilder("a").appendCodePoint(0xD800)
    encoded = jvm.java.nio.charset.StandardCharsets.UTF_8.encode(jvm.java.nio.CharBuffer.wrap(java_text))
    assert Serdes.string().serialize("a\ud800") == bytes(encoded.array())[: encoded.limit()]


@given(text, time)
@few
def test_time_windowed_keys(jvm, key, start):
    kstream = jvm.org.apache.kafka.streams.kstream
    string = jvm.org.apache.kafka.common.serialization
    window = kstream.internals.TimeWindow(start, start + 15_000)
    serde = Serdes.windowed(Serdes.string(), timedelta(seconds=15))
    form = kstream.TimeWindowedSerializer(string.StringSerializer()).serialize("t", kstream.Windowed(key, window))
    assert serde.serialize(Windowed(key, Window(start, start + 15_000))) == form
    assert serde.deserialize(form) == Windowed(key, Window(start, start + 15_000))


@pytest.mark.parametrize("start", [0, 2**63 - 1 - 15_000, 2**63 - 15_000, 2**63 - 2])
def test_the_end_of_a_time_window_overflows_as_in_kafka(jvm, start):
    java = call(jvm, f"{STATE}.WindowKeySchema", None, "timeWindowForSize", start, 15_000)
    serde = Serdes.windowed(Serdes.string(), timedelta(seconds=15))
    assert serde.deserialize(start.to_bytes(8, "big")).window == Window(java.start(), java.end())


@given(text, time, st.integers(0, 10_000))
@few
def test_session_windowed_keys(jvm, key, start, length):
    kstream = jvm.org.apache.kafka.streams.kstream
    string = jvm.org.apache.kafka.common.serialization
    window = kstream.internals.SessionWindow(start, start + length)
    serde = Serdes.session_windowed(Serdes.string())
    form = kstream.SessionWindowedSerializer(string.StringSerializer()).serialize("t", kstream.Windowed(key, window))
    assert serde.serialize(Windowed(key, Window(start, start + length))) == form
    assert serde.deserialize(form) == Windowed(key, Window(start, start + length))


# --- hashes


@given(st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_hashes(jvm, value):
    kafka_hash = jvm.org.apache.kafka.common.utils.Utils.murmur2(value)
    assert murmur2(value) == kafka_hash
    kafka_partition = jvm.org.apache.kafka.clients.producer.internals.BuiltInPartitioner.partitionForKey(value, 7)
    assert partition_for_key(value, 7) == kafka_partition
    assert murmur3_128(value) == struct.pack(
        ">qq", *jvm.org.apache.kafka.streams.state.internals.Murmur3.hash128(value)
    )


# --- stores


@given(data, long)
@few
def test_timestamped_value(jvm, value, timestamp):
    bytes_serializer = jvm.org.apache.kafka.common.serialization.ByteArraySerializer()
    serializer = construct(jvm, f"{STATE}.ValueAndTimestampSerializer", bytes_serializer)
    java = serializer.serialize("t", java_headers(jvm), value, timestamp)
    assert pack_timestamped(value, timestamp) == java


@given(data, time, st.integers(0, 2**31 - 1))
@few
def test_window_store_keys(jvm, key, start, seqnum):
    internals = jvm.org.apache.kafka.streams.state.internals
    raw = jvm.org.apache.kafka.common.utils.Bytes.wrap(key)
    assert (
        pack_window_store_key(key, start, seqnum)
        == internals.WindowKeySchema.toStoreKeyBinary(raw, start, seqnum).get()
    )
    time_first = internals.PrefixedWindowKeySchemas.TimeFirstWindowKeySchema
    assert pack_time_first_key(key, start, seqnum) == time_first.toStoreKeyBinary(raw, start, seqnum).get()


@given(data, time, time)
@few
def test_session_store_key(jvm, key, start, end):
    schema = jvm.org.apache.kafka.streams.state.internals.SessionKeySchema
    assert (
        pack_session_key(key, start, end)
        == schema.toBinary(jvm.org.apache.kafka.common.utils.Bytes.wrap(key), start, end).get()
    )


@given(int32)
@few
def test_varint(jvm, number):
    buffer = jvm.java.nio.ByteBuffer.allocate(5)
    jvm.org.apache.kafka.common.utils.ByteUtils.writeVarint(number, buffer)
    assert pack_varint(number) == bytes(buffer.array())[: buffer.position()]


@given(st.none() | data, data, st.booleans())
@few
def test_change(jvm, one, other, swap):
    new, old = (other, one) if swap else (one, other)
    internals = jvm.org.apache.kafka.streams.kstream.internals
    serializer = internals.ChangedSerializer(jvm.org.apache.kafka.common.serialization.ByteArraySerializer())
    form = serializer.serialize("t", java_headers(jvm), internals.Change(new, old))
    assert pack_change(new, old) == form
    assert unpack_change(form)[:2] == (new, old)


# --- buffers


@given(long, long, int32, text, headers)
@few
def test_record_context(jvm, timestamp, offset, partition, topic, headers):
    context = RecordContext(timestamp, headers, topic, partition, offset)
    java = java_context(jvm, context)
    assert pack_record_context(context) == java.serialize()
    assert resident_size(context) == java.residentMemorySizeEstimate()


@given(st.none() | data, st.none() | data, st.none() | data, st.booleans())
@few
def test_buffer_value(jvm, prior, old, new, same):
    value = BufferValue(prior, prior if same else old, new, CONTEXT)
    name = f"{STATE}.BufferValue"
    java = construct(jvm, name, value.prior, value.old, new, java_context(jvm, CONTEXT))
    assert pack_buffer_value(value) == bytes(call(jvm, name, java, "serialize", 0).array())
    assert suppressed_size(b"key", value) == 8 + 3 + call(jvm, name, java, "residentMemorySizeEstimate")


def test_suppress_changelog_headers(jvm):
    name = f"{STATE}.InMemoryTimeOrderedKeyValueChangeBuffer"
    field = jvm.java.lang.Class.forName(name).getDeclaredField("CHANGELOG_HEADERS")
    field.setAccessible(True)
    written = [(header.key(), bytes(header.value())) for header in field.get(None).toArray()]
    assert tuple(written) == SUPPRESS_CHANGELOG_HEADERS


# --- foreign key joins


@given(hashes, st.sampled_from(Instruction), data, int32)
@few
def test_subscription(jvm, hash, instruction, key, partition):
    byte_array = jvm.org.apache.kafka.common.serialization.Serdes.ByteArray()
    package = jvm.org.apache.kafka.streams.kstream.internals.foreignkeyjoin
    enum = jvm.java.lang.Class.forName(f"{FOREIGN_KEY}.SubscriptionWrapper$Instruction")
    java_instruction = enum.getEnumConstants()[int(instruction)]
    assert java_instruction.name() == instruction.name
    wrapper = package.SubscriptionWrapper(longs(jvm, hash), java_instruction, key, partition)
    serde = package.SubscriptionWrapperSerde(TopicName(), byte_array)
    form = serde.serializer().serialize("t", java_headers(jvm), wrapper)
    assert pack_subscription(hash, instruction, key, partition) == form


@given(hashes, st.none() | some_data)
@few
def test_response(jvm, hash, value):
    byte_array = jvm.org.apache.kafka.common.serialization.Serdes.ByteArray()
    package = jvm.org.apache.kafka.streams.kstream.internals.foreignkeyjoin
    wrapper = package.SubscriptionResponseWrapper(longs(jvm, hash), value, None)
    serializer = package.SubscriptionResponseWrapperSerde(byte_array).serializer()
    form = call(
        jvm,
        f"{FOREIGN_KEY}.SubscriptionResponseWrapperSerde$SubscriptionResponseWrapperSerializer",
        serializer,
        "serialize",
        "t",
        java_headers(jvm),
        wrapper,
    )
    assert pack_response(hash, value) == form


@given(data, data)
@few
def test_combined_key(jvm, foreign, primary):
    byte_array = jvm.org.apache.kafka.common.serialization.Serdes.ByteArray()
    name = f"{FOREIGN_KEY}.CombinedKeySchema"
    schema = jvm.org.apache.kafka.streams.kstream.internals.foreignkeyjoin.CombinedKeySchema(
        TopicName(), byte_array, TopicName(), byte_array
    )
    form = call(jvm, name, schema, "toBytes", foreign, primary, java_headers(jvm)).get()
    assert pack_combined_key(foreign, primary) == form
    assert combined_key_prefix(foreign) == call(jvm, name, schema, "prefixBytes", foreign, java_headers(jvm)).get()


# --- outer joins of streams


@given(data, time, st.booleans())
@few
def test_join_side_key(jvm, key, timestamp, is_left):
    byte_array = jvm.org.apache.kafka.common.serialization.Serdes.ByteArray()
    internals = jvm.org.apache.kafka.streams.state.internals
    make = internals.TimestampedKeyAndJoinSide.makeLeft if is_left else internals.TimestampedKeyAndJoinSide.makeRight
    serializer = internals.TimestampedKeyAndJoinSideSerde(byte_array).serializer()
    form = serializer.serialize("t", java_headers(jvm), make(key, timestamp))
    assert pack_join_side_key(timestamp, is_left, key) == form


@given(data, st.booleans())
@few
def test_join_side_value(jvm, value, is_left):
    byte_array = jvm.org.apache.kafka.common.serialization.Serdes.ByteArray()
    internals = jvm.org.apache.kafka.streams.state.internals
    make = internals.LeftOrRightValue.makeLeftValue if is_left else internals.LeftOrRightValue.makeRightValue
    serializer = internals.LeftOrRightValueSerde(byte_array, byte_array).serializer()
    assert pack_join_side_value(is_left, value) == serializer.serialize("t", java_headers(jvm), make(value))


@given(st.lists(data, min_size=1, max_size=4))
@few
def test_list(jvm, values):
    serdes = jvm.org.apache.kafka.common.serialization.Serdes
    list_class = jvm.java.lang.Class.forName("java.util.ArrayList")
    serializer = serdes.ListSerde(list_class, serdes.ByteArray()).serializer()
    form = serializer.serialize("t", jvm.java.util.Arrays.asList(array(jvm, "java.lang.Object", *values)))
    assert pack_list(values) == form
    appended: bytes | None = None
    for value in values:
        appended = append_to_list(appended, value)
    assert appended == form


def test_kafka_refuses_a_change_without_values(jvm):
    internals = jvm.org.apache.kafka.streams.kstream.internals
    serializer = internals.ChangedSerializer(jvm.org.apache.kafka.common.serialization.ByteArraySerializer())
    with pytest.raises(Py4JJavaError, match="Both old and new values are null"):
        serializer.serialize("t", java_headers(jvm), internals.Change(None, None))
