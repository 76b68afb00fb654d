from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import dataclass, make_dataclass
from decimal import Decimal
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from headrace.errors import ConfigError, SerializationError
from headrace.serdes import Serdes


@dataclass
class Order:
    id: str
    amount: Decimal
    lines: list[int]


class Point(msgspec.Struct):
    x: int
    y: int


class Customer(pydantic.BaseModel):
    name: str
    age: int = 0
    city: str | None = pydantic.Field(default=None, alias="homeTown")


@dataclass
class Visit:
    customer: Customer


class Row(TypedDict):
    n: int


class Opaque:
    pass


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        (Serdes.json(), {"a": [1, None, "é"]}, '{"a":[1,null,"é"]}'.encode()),
        (Serdes.json(Order), Order("o1", Decimal("10.50"), [1]), b'{"id":"o1","amount":"10.50","lines":[1]}'),
        (Serdes.json(Point), Point(1, 2), b'{"x":1,"y":2}'),
        (Serdes.json(Customer), Customer(name="Ann", homeTown="Bern"), b'{"name":"Ann","age":0,"homeTown":"Bern"}'),
        (Serdes.json(Visit), Visit(Customer(name="Ann")), b'{"customer":{"name":"Ann","age":0,"homeTown":null}}'),
        (Serdes.json(Row), {"n": 1}, b'{"n":1}'),
        (Serdes.json(list[int]), [1, 2], b"[1,2]"),
    ],
    ids=repr,
)
def test_round_trip(serde, value, data):
    for each in (serde, pickle.loads(pickle.dumps(serde))):
        assert each.serialize(value) == data
        assert each.deserialize(data) == value
        assert each.serialize(None) is None
        assert each.deserialize(None) is None


def test_a_decimal_reads_from_a_number_too():
    assert Serdes.json(Order).deserialize(b'{"id":"o","amount":10.50,"lines":[]}').amount == Decimal("10.50")


def test_names_the_type():
    assert repr(Serdes.json()) == "Serde(json)"
    assert repr(Serdes.json(Order)) == "Serde(json(Order))"
    assert repr(Serdes.json(list[int])) == "Serde(json(list[int]))"


@pytest.mark.parametrize(
    ("of", "data", "message"),
    [
        (
            Order,
            b'{"id":"o","amount":"1","lines":["x"]}',
            r"json\(Order\).*Expected `int`, got `str`.*\$\.lines\[(0|\.\.\.)\]",
        ),
        (Order, b'{"id":"o"}', r"json\(Order\).*missing required field `amount`"),
        (Customer, b'{"name":"Ann","age":"old"}', r"json\(Customer\).*age: Input should be a valid integer"),
        (Customer, b"{", r"json\(Customer\).*Invalid JSON"),
        (Visit, b'{"customer":{"name":1}}', r"json\(Visit\)[\s\S]*\$\.customer"),
        (None, b"{", r"json\(\).*truncated"),
        (None, b"", r"json\(\).*truncated"),
        (None, b'"\xff"', r"json\(\)"),
    ],
)
def test_data_that_does_not_fit_is_an_error_that_says_where(of: Any, data, message):
    with pytest.raises(SerializationError, match=message):
        Serdes.json(of).deserialize(data)


@pytest.mark.parametrize("of", [Order, Point, Customer])
def test_a_value_of_another_type_is_an_error_that_says_what_to_do(of):
    with pytest.raises(
        SerializationError, match=rf"json\({of.__name__}\) cannot serialize dict .*build a {of.__name__}"
    ):
        Serdes.json(of).serialize({"id": "o"})


def test_a_value_without_a_json_form_is_an_error():
    with pytest.raises(
        SerializationError, match=r"json\(\) cannot serialize dict: objects of type Opaque have no JSON"
    ):
        Serdes.json().serialize({"a": Opaque()})
    with pytest.raises(SerializationError, match=r"json\(\) cannot serialize dict"):
        Serdes.json().serialize({("a", "b"): 1, b"\xff": Opaque()})


def test_a_type_without_a_json_form_is_refused_when_the_serde_is_made():
    with pytest.raises(ConfigError, match=r"json\(Opaque\).*make it a dataclass"):
        Serdes.json(Opaque)


SCRIPT = """
import pickle, sys
from dataclasses import dataclass
from typing import NamedTuple, TypedDict
import pydantic
from pyspark import cloudpickle
from headrace.serdes import Serdes

@dataclass
class Line:
    n: int

@dataclass
class Nested:
    n: int
    lines: list[Line]

class Named(NamedTuple):
    n: int

class Typed(TypedDict):
    n: int

class Model(pydantic.BaseModel):
    n: int

values = [Nested(1, [Line(2)]), Named(1), {"n": 1}, Model(n=1)]
types = [Nested, Named, Typed, Model]
serdes = [Serdes.json(each) for each in types]
forms = [serde.serialize(value) for serde, value in zip(serdes, values)]
assert [serde.deserialize(form) for serde, form in zip(serdes, forms)] == values
with open(sys.argv[1], "wb") as file:
    pickle.dump((cloudpickle.dumps((serdes, lambda: Nested(1, [Line(2)]))), forms), file)
"""
READER = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    shipped, forms = pickle.load(file)
serdes, make = pickle.loads(shipped)
assert [serde.serialize(serde.deserialize(form)) for serde, form in zip(serdes, forms)] == forms
assert serdes[0].deserialize(forms[0]) == make()
"""


def test_types_of_a_script_travel_to_other_processes_with_their_serde(tmp_path):
    pytest.importorskip("pyspark")
    for program in (SCRIPT, READER):
        run_python(program, str(tmp_path / "shipped"))


def test_a_struct_that_lost_its_fields_on_the_way_is_refused():
    rebuild, (_, fields) = Serdes.json(list[Point]).__reduce__()
    lost = type("Point", (msgspec.Struct,), {})
    with pytest.raises(ConfigError, match="lost its fields on the way to a worker; define it in a module"):
        rebuild(list[lost], fields)  # type: ignore[valid-type]


def test_an_annotation_that_means_nothing_is_refused_when_the_serde_is_made():
    lonely = make_dataclass("Lonely", [("other", "Missing")])
    with pytest.raises(ConfigError, match=r"json\(Lonely\): name 'Missing' is not defined.*at the top of a module"):
        Serdes.json(lonely)


def run_python(program: str, *arguments: str) -> None:
    command = [sys.executable, "-c", program, *arguments]
    subprocess.run(command, check=True, env={"PYTHONPATH": os.pathsep.join(sys.path)})


def test_pydantic_is_not_needed():
    program = (
        "import sys; sys.modules['pydantic'] = None\n"
        "from dataclasses import make_dataclass\n"
        "from headrace.serdes import Serdes\n"
        "T = make_dataclass('T', [('a', int)])\n"
        "assert Serdes.json(T).deserialize(Serdes.json(T).serialize(T(1))) == T(1)\n"
    )
    run_python(program)
