"""Joins of two tables by a foreign key."""

from __future__ import annotations

from headrace import Materialized, TableJoined
from tests.oracle.scenario import pipe, scenario
from tests.oracle.scenarios.common import OUT, STRINGS, S, ms, plus


def order(key, value, time, headers=None):
    return pipe("orders", key, value, time, (("order", str(time).encode()),) if headers is None else headers)


def person(key, value, time, headers=None):
    return pipe("people", key, value, time, (("person", str(time).encode()),) if headers is None else headers)


def fk(value):
    """`person:thing` has the person as its foreign key; an empty one is none."""
    return value.split(":")[0] or None


EVENTS = [
    order("o1", "p1:x", 10, (("h", b"o"),)),
    person("p1", "Ann", 5, (("h", b"p"),)),
    person("p1", "Anna", 20),
    order("o2", "p1:y", 21),
    order("o1", "p1:z", 15),
    order("o1", "p2:z", 22),
    person("p2", "Bob", 23),
    person("p1", "A", 1),
    order("o3", ":none", 24),
    order("o3", "p1:w", 25),
    order("o3", ":none", 26),
    order("o2", None, 27),
    order("o2", None, 28),
    order("o9", None, 29),
    person("p2", None, 30),
    person("p2", "Bert", 31),
    order(None, "p1:q", 32),
    person(None, "Nobody", 33),
    order("o1", "p2:z", 34),
    order("o1", None, 35),
    person("p2", "Berta", 36),
]
METHODS = ("join", "left_join")


def _every_join(case, build, inputs=EVENTS):
    for method in METHODS:

        @scenario(f"foreign-key {method}", case, inputs)
        def _(b, method=method):
            build(b, method)


def _tables(b):
    return b.table("orders", STRINGS, "orders-store"), b.table("people", STRINGS, "people-store")


def _materialized(b, method):
    orders, people = _tables(b)
    getattr(orders, method)(people, plus, Materialized("j", key=S, value=S), foreign_key=fk).to_stream().to("out", OUT)


def _plain(b, method):
    orders, people = b.table("orders", STRINGS), b.table("people", STRINGS)
    getattr(orders, method)(people, plus, foreign_key=fk).to_stream().to("out", OUT)


def _named(b, method):
    orders, people = _tables(b)
    getattr(orders, method)(people, plus, foreign_key=fk, joined=TableJoined(name="by-person")).to_stream().to(
        "out", OUT
    )


def _with_key(b, method):
    orders, people = _tables(b)
    getattr(orders, method)(people, plus, foreign_key=lambda k, v: "p1" if k == "o3" else fk(v)).to_stream().to(
        "out", OUT
    )


def _filtered(b, method):
    orders, people = _tables(b)
    orders = orders.filter(lambda k, v: "z" not in v)
    people = people.map_values(lambda v: None if v == "Bob" else v.upper(), Materialized(key=S, value=S))
    getattr(orders, method)(people, plus, foreign_key=fk).to_stream().to("out", OUT)


def _filtered_after(b, method):
    orders, people = _tables(b)
    joined = getattr(orders, method)(people, plus, foreign_key=fk)
    joined.filter(lambda k, v: "B" not in v, Materialized("end", key=S, value=S)).to_stream().to("out", OUT)


def _versioned(b, method):
    orders = b.table("orders", STRINGS, Materialized.versioned("orders-store", ms(100)))
    people = b.table("people", STRINGS, Materialized.versioned("people-store", ms(100)))
    getattr(orders, method)(people, plus, foreign_key=fk).to_stream().to("out", OUT)


_every_join("materialized: changing and null foreign keys, tombstones", _materialized)
_every_join("not materialized", _plain)
_every_join("named", _named)
_every_join("foreign key from key and value", _with_key)
_every_join("of a filtered and a mapped table", _filtered)
_every_join("filtered afterwards", _filtered_after)
_every_join("of versioned tables", _versioned)


@scenario(
    "foreign-key join",
    "with itself: who leads whom",
    [
        pipe("people", "a", "b:Ann", 0),
        pipe("people", "b", "c:Bob", 1),
        pipe("people", "c", ":Cid", 2),
        pipe("people", "b", "c:Bo", 3),
        pipe("people", "a", "c:Ann", 4),
        pipe("people", "c", None, 5),
    ],
)
def _(b):
    people = b.table("people", STRINGS, "p")
    people.join(people, plus, foreign_key=fk).to_stream().to("out", OUT)


@scenario(
    "foreign-key left_join",
    "two in a row",
    [
        *EVENTS[:9],
        pipe("things", "x", "XX", 40),
        pipe("things", "z", "ZZ", 41),
        order("o1", "p1:x", 42),
        pipe("things", "x", None, 43),
    ],
)
def _(b):
    orders, people = _tables(b)
    (
        orders.left_join(people, plus, Materialized("j1", key=S, value=S), foreign_key=fk)
        .left_join(
            b.table("things", STRINGS),
            plus,
            Materialized("j2", key=S, value=S),
            foreign_key=lambda v: v.split(":")[1].split("+")[0],
        )
        .to_stream()
        .to("out", OUT)
    )
