"""Joins of two tables by their key."""

from __future__ import annotations

from headrace import Grouped, Materialized
from tests.oracle.scenario import pipe, scenario, trace
from tests.oracle.scenarios.common import LONGS, OUT, STRINGS, S, plus


def left(key, value, time, headers=None):
    return pipe("left", key, value, time, (("left", str(time).encode()),) if headers is None else headers)


def right(key, value, time, headers=None):
    return pipe("right", key, value, time, (("right", str(time).encode()),) if headers is None else headers)


EVENTS = [
    left("a", "l1", 10, (("h", b"l"),)),
    right("a", "r1", 5, (("h", b"r"),)),
    right("a", "r2", 20),
    left("a", "l2", 7),
    right("b", "r3", 1),
    left("b", "l3", 2),
    left("a", None, 30),
    right("a", None, 31),
    right("a", None, 32),
    left("c", None, 33),
    left(None, "l9", 34),
    right(None, "r9", 35),
    right("b", None, 36),
    left("b", None, 0),
    left("a", "l4", 40),
    right("a", "r4", 40),
]
METHODS = ("join", "left_join", "outer_join")


def _every_join(case, build, inputs=EVENTS):
    for method in METHODS:

        @scenario(f"table-table {method}", case, inputs)
        def _(b, method=method):
            build(b, method)


def _materialized(b, method):
    t = getattr(b.table("left", STRINGS, "l"), method)(
        b.table("right", STRINGS, "r"), plus, Materialized("j", key=S, value=S)
    )
    trace(t.queryable_store_name)
    t.to_stream().to("out", OUT)


def _not_materialized(b, method):
    t = getattr(b.table("left", STRINGS), method)(b.table("right", STRINGS), plus, name="jn")
    trace(t.queryable_store_name)
    t.to_stream().to("out", OUT)


def _filtered(b, method):
    left_table = b.table("left", STRINGS).filter(lambda k, v: v != "l2")
    right_table = b.table("right", STRINGS).map_values(lambda v: v + "!").filter_not(lambda k, v: v == "r2!")
    getattr(left_table, method)(right_table, plus).to_stream().to("out", OUT)


def _filtered_after(b, method):
    joined = getattr(b.table("left", STRINGS), method)(b.table("right", STRINGS), plus)
    joined.filter(lambda k, v: "2" in v).map_values(
        lambda v: v + "!", Materialized("end", key=S, value=S)
    ).to_stream().to("out", OUT)


def _null_answers(b, method):
    joiner = lambda x, y: None if x == "l2" or y == "r1" else f"{x}+{y}"
    getattr(b.table("left", STRINGS), method)(
        b.table("right", STRINGS), joiner, Materialized("j", key=S, value=S)
    ).to_stream().to("out", OUT)


def _itself(b, method):
    t = b.table("left", STRINGS, "l")
    getattr(t, method)(t.map_values(lambda v: v.upper()), plus).to_stream().to("out", OUT)


def _three(b, method):
    first = getattr(b.table("left", STRINGS), method)(b.table("right", STRINGS), plus)
    getattr(first, method)(b.table("third", LONGS), plus, Materialized("j", key=S, value=S)).to_stream().to("out", OUT)


def _grouped(b, method):
    joined = getattr(b.table("left", STRINGS), method)(b.table("right", STRINGS), plus)
    joined.group_by(lambda k, v: (v[:2], v), Grouped(S, S)).count("n").map_values(lambda v: str(v)).to_stream().to(
        "out", OUT
    )


def _counts(b, method):
    lefts = b.stream("left", STRINGS).group_by_key().count("nl")
    rights = b.stream("right", STRINGS).group_by_key().count("nr")
    getattr(lefts, method)(rights, plus, Materialized("j", key=S, value=S), name="both").to_stream().to("out", OUT)


_every_join("materialized", _materialized)
_every_join("not materialized, named", _not_materialized)
_every_join("of filtered tables", _filtered)
_every_join("filtered afterwards", _filtered_after)
_every_join("the joiner answers null", _null_answers)
_every_join("with itself", _itself, [event for event in EVENTS if event.topic == "left"])
_every_join(
    "of three tables",
    _three,
    [*EVENTS[:6], pipe("third", "a", 7, 3), *EVENTS[6:12], pipe("third", "a", None, 50), pipe("third", "b", 8, 51)],
)
_every_join("then grouped", _grouped)
_every_join("of two aggregations", _counts)
