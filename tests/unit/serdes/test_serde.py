from __future__ import annotations

import pickle

import pytest

from headrace.errors import ConfigError, SerializationError
from headrace.serdes import Serde, Serdes


def never(_: object) -> bytes:
    raise AssertionError("called with None")


def test_none_stays_none_and_the_functions_never_see_it():
    serde: Serde[bytes] = Serde(never, never)
    assert serde.serialize(None) is None
    assert serde.deserialize(None) is None


def test_wraps_two_functions():
    serde = Serde(str.encode, bytes.decode)
    assert serde.serialize("ab") == b"ab"
    assert serde.deserialize(b"ab") == "ab"


def test_a_serialize_function_may_return_any_bytes_like_object_or_none():
    assert Serde(bytearray, bytes).serialize(b"ab") == b"ab"
    assert type(Serde(bytearray, bytes).serialize(b"ab")) is bytes
    nothing: Serde[str] = Serde(lambda _: None, bytes.decode)
    assert nothing.serialize("ab") is None


def test_a_serialize_function_that_returns_text_is_an_error_that_says_so():
    serde = Serde(str.upper, bytes.decode)  # type: ignore[arg-type]
    with pytest.raises(SerializationError, match=r"Serde\(str.upper, bytes.decode\).*returned str, not bytes"):
        serde.serialize("ab")


def test_what_is_not_a_function_is_refused_when_the_serde_is_made():
    with pytest.raises(ConfigError, match="deserialize is str, not a function"):
        Serde(str.encode, "utf-8")  # type: ignore[arg-type]


def test_is_immutable():
    with pytest.raises(AttributeError, match="immutable"):
        Serdes.string().name = "other"
    with pytest.raises(AttributeError, match="immutable"):
        del Serdes.string().name
    assert Serdes.string().serialize("a") == b"a"


def test_has_a_readable_name():
    assert repr(Serdes.string()) == "Serde(string)"
    assert repr(Serdes.session_windowed(Serdes.long())) == "Serde(session_windowed(long))"
    assert repr(Serde(str.encode, bytes.decode, name="latin")) == "Serde(latin)"


def test_a_serde_of_importable_functions_can_be_pickled():
    serde = pickle.loads(pickle.dumps(Serde(str.encode, bytes.decode, name="mine")))
    assert serde.serialize("ab") == b"ab"
    assert serde.serialize(None) is None
    assert serde.name == "mine"
