from __future__ import annotations

import pickle
from datetime import timedelta

import pytest

from headrace.errors import ConfigError, SerializationError
from headrace.serdes import Serdes
from headrace.windowed import Window, Windowed

MAX = 2**63 - 1
TIME = Serdes.windowed(Serdes.string(), timedelta(seconds=15))
SESSION = Serdes.session_windowed(Serdes.string())


def big_endian(number: int) -> bytes:
    return number.to_bytes(8, "big")


@pytest.mark.parametrize(
    ("serde", "window", "suffix"),
    [
        (TIME, Window(30_000, 45_000), big_endian(30_000)),
        (SESSION, Window(10, 70), big_endian(70) + big_endian(10)),
        (SESSION, Window(10, 10), big_endian(10) + big_endian(10)),
    ],
)
def test_the_window_follows_the_key(serde, window, suffix):
    for each in (serde, pickle.loads(pickle.dumps(serde))):
        assert each.serialize(Windowed("ab", window)) == b"ab" + suffix
        assert each.deserialize(b"ab" + suffix) == Windowed("ab", window)


@pytest.mark.parametrize("serde", [TIME, SESSION])
def test_nothing_stays_nothing(serde):
    assert serde.serialize(None) is None
    assert serde.deserialize(None) is None
    assert serde.deserialize(b"") is None


def test_the_end_of_a_time_window_stops_at_the_largest_timestamp():
    assert TIME.deserialize(big_endian(MAX - 5)) == Windowed("", Window(MAX - 5, MAX))


@pytest.mark.parametrize(
    ("serde", "data"),
    [
        (TIME, b"\xff" * 8),
        (TIME, big_endian(MAX)),
        (SESSION, big_endian(5) + big_endian(6)),
        (SESSION, big_endian(5) + b"\xff" * 8),
    ],
)
def test_an_impossible_window_is_an_error(serde, data):
    with pytest.raises(SerializationError, match="which cannot be"):
        serde.deserialize(data)


@pytest.mark.parametrize(("serde", "size"), [(TIME, 7), (SESSION, 15)])
def test_data_too_short_for_a_window_is_an_error(serde, size):
    with pytest.raises(SerializationError, match=f"Size of data received by .*WindowedDeserializer is {size}"):
        serde.deserialize(bytes(size))


@pytest.mark.parametrize("serde", [TIME, SESSION])
def test_a_key_without_a_window_is_an_error_that_says_what_to_do(serde):
    with pytest.raises(SerializationError, match=r"cannot serialize str 'ab': it takes a Windowed key; wrap it"):
        serde.serialize("ab")
    with pytest.raises(SerializationError, match="the key inside must not be None"):
        serde.serialize(Windowed(None, Window(0, 1)))


@pytest.mark.parametrize("size", [15, timedelta(0), timedelta(seconds=-1)])
def test_the_size_is_a_positive_duration(size):
    with pytest.raises(ConfigError, match=r"Serdes\.windowed: size must be"):
        Serdes.windowed(Serdes.string(), size)
