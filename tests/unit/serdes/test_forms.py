"""Each form reads back what it wrote, and refuses what it cannot have written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import SerializationError
from headrace.record import Change, RecordContext
from headrace.serdes.forms.buffer_value import (
    BufferValue,
    pack_buffer_value,
    pack_buffered,
    suppressed_size,
    unpack_buffered,
)
from headrace.serdes.forms.change import pack_change, unpack_change
from headrace.serdes.forms.foreign_key import (
    Instruction,
    Response,
    Subscription,
    combined_key_prefix,
    pack_combined_key,
    pack_response,
    pack_subscription,
    unpack_combined_key,
    unpack_response,
    unpack_subscription,
)
from headrace.serdes.forms.list_value import append_to_list, pack_list, unpack_list
from headrace.serdes.forms.outer_join import (
    pack_join_side_key,
    pack_join_side_value,
    unpack_join_side_key,
    unpack_join_side_value,
)
from headrace.serdes.forms.record_context import pack_record_context, unpack_record_context
from headrace.serdes.forms.session_key import pack_session_key, unpack_session_key
from headrace.serdes.forms.timestamped import pack_timestamped, timestamp_of, unpack_timestamped, value_of
from headrace.serdes.forms.varint import pack_varint, unpack_varint
from headrace.serdes.forms.window_key import (
    pack_time_first_key,
    pack_window_store_key,
    pack_windowed_key,
    unpack_time_first_key,
    unpack_window_store_key,
    unpack_windowed_key,
)

data = st.binary(max_size=300)
longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
hashes = st.none() | st.binary(min_size=16, max_size=16)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | data), max_size=3).map(tuple)
CONTEXT = RecordContext(1, (("h", b"x"), ("n", None)), "topic", 2, 3)


@given(data, longs, ints)
def test_keys_and_values_with_times(key, time, number):
    assert unpack_timestamped(pack_timestamped(key, time)) == (key, time)
    assert timestamp_of(pack_timestamped(key, time)) == time
    assert value_of(pack_timestamped(key, time)) == key
    assert unpack_windowed_key(pack_windowed_key(key, time)) == (key, time)
    assert unpack_window_store_key(pack_window_store_key(key, time, number)) == (key, time, number)
    assert unpack_time_first_key(pack_time_first_key(key, time, number)) == (key, time, number)
    assert unpack_session_key(pack_session_key(key, time, time)) == (key, time, time)


def test_store_keys_sort_by_key_then_time():
    assert pack_window_store_key(b"a", 5) < pack_window_store_key(b"a", 6) < pack_window_store_key(b"b", 0)
    assert pack_time_first_key(b"b", 5, 0) < pack_time_first_key(b"a", 6, 0)
    assert pack_join_side_key(5, True, b"b") < pack_join_side_key(6, False, b"a")


@given(ints)
def test_varint(number):
    assert unpack_varint(b"\x05" + pack_varint(number), 1) == (number, 1 + len(pack_varint(number)))


@pytest.mark.parametrize("broken", [b"", b"\x80", b"\xff" * 6])
def test_a_varint_that_does_not_end_is_an_error(broken):
    with pytest.raises(SerializationError, match="Varint"):
        unpack_varint(broken)


@given(st.none() | data, data)
def test_change(one, other):
    assert unpack_change(pack_change(other, one)) == Change(other, one)
    assert unpack_change(pack_change(one, other)) == Change(one, other)


@pytest.mark.parametrize(
    ("form", "change"),
    [
        (b"old\x01\x03", Change(None, b"old", True)),
        (b"new\x00\x04", Change(b"new", None, False)),
        (b"\x06newold\x00\x05", Change(b"new", b"old", False)),
    ],
)
def test_change_with_a_latest_flag(form, change):
    assert unpack_change(form) == change


def test_a_change_without_values_cannot_be_written():
    with pytest.raises(SerializationError, match="Both old and new values are null"):
        pack_change(None, None)


@pytest.mark.parametrize("broken", [b"", b"\x06", b"x\x07\x03", b"\x08ab\x02"])
def test_a_broken_change_is_an_error(broken):
    with pytest.raises(SerializationError):
        unpack_change(broken)


@given(longs, longs, ints, st.text(min_size=1, max_size=9), headers)
def test_record_context(timestamp, offset, partition, topic, headers):
    context = RecordContext(timestamp, headers, topic, partition, offset)
    packed = pack_record_context(context)
    again, end = unpack_record_context(packed)
    assert end == len(packed)
    for field in ("timestamp", "headers", "topic", "partition", "offset"):
        assert getattr(again, field) == getattr(context, field)


def test_a_record_without_a_topic_keeps_none():
    assert unpack_record_context(pack_record_context(RecordContext(1)))[0].topic is None


@given(st.none() | data, st.none() | data, st.none() | data, longs)
def test_buffered(prior, old, new, time):
    value, again = unpack_buffered(pack_buffered(BufferValue(prior, old, new, CONTEXT), time))
    assert value[:3] == (prior, old, new)
    assert value.context.headers == CONTEXT.headers
    assert again == time


def test_an_old_value_equal_to_the_prior_one_is_written_and_counted_once():
    once = BufferValue(b"prior", b"prior", b"n", CONTEXT)
    twice = BufferValue(b"prior", b"other", b"n", CONTEXT)
    assert len(pack_buffer_value(twice)) - len(pack_buffer_value(once)) == 5
    assert suppressed_size(b"k", twice) - suppressed_size(b"k", once) == 5


@given(st.integers(0, len(pack_buffered(BufferValue(b"p", b"o", b"n", CONTEXT), 5)) - 1))
def test_a_buffered_value_cut_short_is_an_error(size):
    whole = pack_buffered(BufferValue(b"p", b"o", b"n", CONTEXT), 5)
    with pytest.raises(SerializationError):
        unpack_buffered(whole[:size])


@given(hashes, st.sampled_from(Instruction), data, ints, st.none() | st.binary(min_size=1))
def test_subscription_and_response(hash, instruction, key, partition, value):
    packed = pack_subscription(hash, instruction, key, partition)
    assert unpack_subscription(packed) == Subscription(hash, instruction, key, partition)
    assert unpack_response(pack_response(hash, value)) == Response(hash, value)


def test_a_subscription_of_version_0_has_no_partition():
    expected = Subscription(None, Instruction.DELETE_KEY_AND_PROPAGATE, b"key", None, 0)
    assert unpack_subscription(b"\x80\x01key") == expected


@pytest.mark.parametrize(
    "broken", [b"", b"\x81", b"\x81\x04key0000", b"\x82\x01key0000", b"\x01\x01short", b"\x81\x01k"]
)
def test_a_broken_subscription_is_an_error(broken):
    with pytest.raises(SerializationError):
        unpack_subscription(broken)


@pytest.mark.parametrize("broken", [b"", b"\x81value", b"\x00short"])
def test_a_broken_response_is_an_error(broken):
    with pytest.raises(SerializationError):
        unpack_response(broken)


@given(data, data)
def test_combined_key(foreign, primary):
    combined = pack_combined_key(foreign, primary)
    assert unpack_combined_key(combined) == (foreign, primary)
    assert combined.startswith(combined_key_prefix(foreign))


@pytest.mark.parametrize("broken", [b"", b"\xff\xff\xff\xff", b"\x00\x00\x00\x05abc"])
def test_a_broken_combined_key_is_an_error(broken):
    with pytest.raises(SerializationError):
        unpack_combined_key(broken)


@given(longs, st.booleans(), data)
def test_join_side(timestamp, is_left, key):
    assert unpack_join_side_key(pack_join_side_key(timestamp, is_left, key)) == (timestamp, is_left, key)
    assert unpack_join_side_value(pack_join_side_value(is_left, key)) == (is_left, key)


@given(st.lists(st.none() | data), data)
def test_list(values, added):
    assert unpack_list(pack_list(values)) == values
    assert append_to_list(pack_list(values), added) == pack_list([*values, added])
    assert append_to_list(None, added) == pack_list([added])


@pytest.mark.parametrize("broken", [b"", b"\x00\x00\x00\x00\x00", b"\x01\x7f\x00\x00\x00", b"\x01\x00\x00\x00\x01\x00"])
def test_a_broken_list_is_an_error(broken):
    with pytest.raises(SerializationError):
        unpack_list(broken)
