"""Joins of a stream with a table."""

from __future__ import annotations

from headrace import Grouped, Joined, Materialized
from tests.oracle.scenario import pipe, scenario
from tests.oracle.scenarios.common import LONGS, OUT, STRINGS, L, S, keyed_plus, ms, plus

JOINED = Joined(S, S, S)
EVENTS = [
    pipe("stream", "a", "s1", 10, (("h", b"1"),)),
    pipe("table", "a", "t1", 5, (("t", b"1"),)),
    pipe("stream", "a", "s2", 11),
    pipe("table", "a", "t2", 20),
    pipe("stream", "a", "s3", 1),
    pipe("table", "a", "t0", 2),
    pipe("stream", "a", "s4", 30),
    pipe("table", "a", None, 31),
    pipe("stream", "a", "s5", 32),
    pipe("stream", None, "s6", 33),
    pipe("stream", "a", None, 34),
    pipe("table", None, "t9", 35),
    pipe("stream", "b", "s7", 36),
]


@scenario("stream-table join", "stream first, table first, nulls", EVENTS)
def _(b):
    b.stream("stream", STRINGS).join(b.table("table", STRINGS, "tab"), plus, joined=JOINED).to("out", OUT)


@scenario("stream-table left_join", "stream first, table first, nulls", EVENTS)
def _(b):
    b.stream("stream", STRINGS).left_join(b.table("table", STRINGS, "tab"), keyed_plus, joined=JOINED).to("out", OUT)


@scenario("stream-table join", "no Joined, table without a store of its own", EVENTS)
def _(b):
    b.stream("stream", STRINGS).join(b.table("table", STRINGS), plus).to("out", OUT)


@scenario("stream-table left_join", "with a filtered and mapped table", EVENTS)
def _(b):
    table = b.table("table", STRINGS).filter(lambda k, v: v != "t2").map_values(lambda v: v + "!")
    b.stream("stream", STRINGS).left_join(table, plus, joined=Joined(S, S, S, name="enrich")).to("out", OUT)


@scenario(
    "stream-table join",
    "key changed: the stream is repartitioned",
    [
        pipe("table", "a", "t1", 5),
        pipe("stream", "x", "a", 10),
        pipe("stream", "x", "b", 11),
        pipe("stream", "x", None, 12),
        pipe("stream", "y", "a", 3),
    ],
)
def _(b):
    (
        b.stream("stream", STRINGS)
        .select_key(lambda k, v: v)
        .join(b.table("table", STRINGS, "tab"), plus, joined=Joined(S, S, S, name="by-value"))
        .to("out", OUT)
    )


@scenario(
    "stream-table left_join",
    "key changed, unnamed",
    [
        pipe("table", "a", "t1", 5),
        pipe("stream", "x", "a", 10),
        pipe("stream", "x", "b", 11),
        pipe("stream", "x", None, 12),
    ],
)
def _(b):
    b.stream("stream", STRINGS).map(lambda k, v: (v, k)).left_join(
        b.table("table", STRINGS, "tab"), plus, joined=JOINED
    ).to("out", OUT)


@scenario(
    "stream-table join",
    "with an aggregation of the same stream",
    [pipe("in", k, "v", i) for i, k in enumerate("aabab")],
)
def _(b):
    s = b.stream("in", STRINGS)
    counts = s.group_by_key().count("n")
    s.join(counts, plus, joined=Joined(S, S, L)).to("out", OUT)


@scenario("stream-table join", "joiner answers null", EVENTS)
def _(b):
    b.stream("stream", STRINGS).join(b.table("table", STRINGS, "tab"), lambda a, t: None, joined=JOINED).to("out", OUT)


@scenario(
    "stream-table left_join",
    "two tables in a row, name=",
    [
        pipe("table", "a", "t", 0),
        pipe("stream", "a", "s", 1),
        pipe("other", "a", 7, 2),
        pipe("stream", "a", "s", 3),
        pipe("stream", "b", "s", 4),
    ],
)
def _(b):
    (
        b.stream("stream", STRINGS)
        .left_join(b.table("table", STRINGS, "tab"), plus, joined=JOINED, name="first")
        .left_join(b.table("other", LONGS, "oth"), plus, joined=Joined(S, S, L), name="second")
        .to("out", OUT)
    )


@scenario(
    "stream-table join",
    "with grace, the stream waits for a versioned table",
    [
        pipe("table", "a", "t0", 0),
        pipe("stream", "a", "s5", 5),
        pipe("table", "a", "t6", 6),
        pipe("stream", "a", "s20", 20),
        pipe("stream", "a", "s7", 7),
        pipe("table", "a", "t5", 5),
        pipe("stream", "a", "s9", 9),
        pipe("stream", "a", "s10", 10),
        pipe("stream", "b", "s40", 40),
        pipe("stream", None, "s41", 41),
        pipe("stream", "a", None, 60),
        pipe("stream", "a", "s90", 90),
    ],
)
def _(b):
    table = b.table("table", STRINGS, Materialized.versioned("tab", ms(100)))
    b.stream("stream", STRINGS).join(table, plus, joined=Joined(S, S, S, grace=ms(10), name="patient")).to("out", OUT)


@scenario(
    "stream-table left_join",
    "with grace, late and equal times",
    [
        pipe("stream", "a", "s5", 5),
        pipe("stream", "b", "s5", 5),
        pipe("stream", "a", "s5'", 5),
        pipe("table", "a", "t1", 1),
        pipe("stream", "a", "s15", 15),
        pipe("stream", "a", "s4", 4),
        pipe("stream", "c", "s30", 30),
        pipe("table", "a", None, 12),
        pipe("stream", "a", "s60", 60),
        pipe("stream", "a", "s49", 49),
        pipe("stream", "a", "s100", 100),
    ],
)
def _(b):
    table = b.table("table", STRINGS, Materialized.versioned("tab", ms(100)))
    b.stream("stream", STRINGS).left_join(table, keyed_plus, joined=Joined(S, S, S, grace=ms(10))).to("out", OUT)


@scenario(
    "stream-table join",
    "versioned table without grace: the value as of the record's time",
    [
        pipe("table", "a", "t0", 0),
        pipe("table", "a", "t10", 10),
        pipe("stream", "a", "s5", 5),
        pipe("table", "a", "t7", 7),
        pipe("stream", "a", "s8", 8),
        pipe("stream", "a", "s20", 20),
        pipe("table", "a", None, 15),
        pipe("stream", "a", "s16", 16),
        pipe("stream", "a", "s14", 14),
    ],
)
def _(b):
    b.stream("stream", STRINGS).join(
        b.table("table", STRINGS, Materialized.versioned("tab", ms(100))), plus, joined=JOINED
    ).to("out", OUT)


@scenario(
    "stream-table left_join",
    "with a table from a grouped table",
    [
        pipe("table", "a", "x", 0),
        pipe("stream", "x", "s1", 1),
        pipe("table", "b", "x", 2),
        pipe("stream", "x", "s2", 3),
        pipe("table", "a", None, 4),
        pipe("stream", "x", "s3", 5),
    ],
)
def _(b):
    sizes = b.table("table", STRINGS, "tab").group_by(lambda k, v: (v, k), Grouped(S, S)).count("sizes")
    b.stream("stream", STRINGS).left_join(sizes, plus, joined=Joined(S, S, L)).to("out", OUT)
