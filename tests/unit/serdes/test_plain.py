"""Plain forms: only of values that a serde gives back as they were."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.serdes import Serde, Serdes
from headrace.serdes.plain import Rough, plain_form


class Flat(msgspec.Struct):
    count: int
    amount: float
    name: str
    done: bool
    other: int | None = None


class Renamed(msgspec.Struct, rename="camel", omit_defaults=True):
    first_one: int = 0
    second_one: float = 0.0


class Limited(msgspec.Struct):
    count: Annotated[int, msgspec.Meta(ge=0)]


class Hooked(msgspec.Struct):
    count: int

    def __post_init__(self) -> None:
        self.count += 1


class Keyword(msgspec.Struct, kw_only=True):
    count: int


class Tagged(msgspec.Struct, tag=True):
    count: int


class Nested(msgspec.Struct):
    items: list[int]


@dataclass
class Data:
    count: int
    amount: float


@dataclass
class Partly:
    count: int
    rest: int = field(default=0, init=False)


@dataclass
class Checked:
    count: int

    def __post_init__(self) -> None:
        pass


FLAT = st.builds(
    Flat,
    count=st.integers() | st.booleans() | st.floats(),
    amount=st.floats() | st.integers(),
    name=st.text(max_size=80) | st.integers(),
    done=st.booleans() | st.integers(0, 1),
    other=st.none() | st.integers(),
)
ANYTHING = st.one_of(st.integers(), st.floats(), st.text(max_size=80), st.booleans(), FLAT, st.none())


@pytest.mark.parametrize(
    "serde",
    [Serdes.json(Flat), Serdes.long(), Serdes.integer(), Serdes.short(), Serdes.double(), Serdes.string()],
    ids=str,
)
@given(value=ANYTHING)
def test_a_value_with_a_plain_form_is_read_as_it_was_written(serde: Serde[Any], value: Any) -> None:
    form = plain_form(serde.serialize)
    assert form is not None
    plain = form.take(value)
    added = form.add(lambda key, given, made: given, "k", value, form.take(_some(serde)))
    if plain is None:
        assert added == Rough(value) or repr(added) == repr(Rough(value))
        return
    data = serde.serialize(value)
    assert data is not None
    assert len(data) <= form.size
    read = serde.deserialize(data)
    assert repr(read) == repr(value) == repr(form.make(plain))
    assert type(read) is type(value)
    assert repr(added) == repr(plain)


def _some(serde: Serde[Any]) -> Any:
    if serde.name == "string":
        return "x"
    if serde.name == "double":
        return 1.0
    return Flat(1, 1.0, "x", True) if serde.name.startswith("json") else 1


@pytest.mark.parametrize("of", [Limited, Hooked, Keyword, Tagged, Nested, Partly, Checked, dict, list[int]])
def test_types_that_may_be_read_otherwise_have_none(of: Any) -> None:
    assert plain_form(Serdes.json(of).serialize) is None


@pytest.mark.parametrize("serde", [Serdes.json(), Serdes.float(), Serdes.uuid(), Serde(str.encode, bytes.decode)])
def test_serdes_that_may_read_otherwise_have_none(serde: Serde[Any]) -> None:
    assert plain_form(serde.serialize) is None


def test_dataclasses_and_renamed_fields_have_one() -> None:
    for value in (Data(1, 2.0), Renamed(1, 2.0), Renamed()):
        serde = Serdes.json(type(value))
        form = plain_form(serde.serialize)
        assert form is not None
        assert form.make(form.take(value)) == value
        assert len(serde.serialize(value)) <= form.size
    assert plain_form(Serdes.json(Data).serialize).take(Data(1, math.inf)) is None  # type: ignore[union-attr]
