"""Global tables."""

from __future__ import annotations

from headrace import Consumed, Materialized
from tests.oracle.scenario import pipe, scenario
from tests.oracle.scenarios.common import OUT, STRINGS, S, keyed_plus, plus

EVENTS = [
    pipe("stream", "k1", "a", 10, (("h", b"1"),)),
    pipe("global", "a", "g1", 5),
    pipe("stream", "k2", "a", 11),
    pipe("stream", "k2", "b", 12),
    pipe("global", "a", "g2", 1),
    pipe("stream", None, "a", 2),
    pipe("stream", "k3", None, 13),
    pipe("stream", "k4", "", 13),
    pipe("global", None, "g9", 14),
    pipe("global", "a", None, 15),
    pipe("stream", "k5", "a", 16),
]


@scenario("global join", "by value", EVENTS)
def _(b):
    table = b.global_table("global", STRINGS, Materialized("glob", key=S, value=S))
    b.stream("stream", STRINGS).join(table, plus, key=lambda k, v: v).to("out", OUT)


@scenario("global left_join", "by value, with the key, some null", EVENTS)
def _(b):
    table = b.global_table("global", STRINGS, Materialized("glob", key=S, value=S))
    b.stream("stream", STRINGS).left_join(table, keyed_plus, key=lambda k, v: v or None, name="enrich").to("out", OUT)


@scenario("global join", "unnamed store, named source", EVENTS)
def _(b):
    table = b.global_table("global", Consumed(S, S, name="everywhere"))
    b.stream("stream", STRINGS).join(table, plus, key=lambda k, v: v, name="enrich").to("out", OUT)


@scenario("global left_join", "by the record's own key", EVENTS)
def _(b):
    b.stream("stream", STRINGS).left_join(b.global_table("global", STRINGS), plus, key=lambda k, v: k).to("out", OUT)


@scenario("global join", "two global tables, then counted", EVENTS)
def _(b):
    one = b.global_table("global", STRINGS, "glob1")
    two = b.global_table("second", STRINGS, "glob2")
    (
        b.stream("stream", STRINGS)
        .left_join(one, plus, key=lambda k, v: v)
        .left_join(two, plus, key=lambda k, v: v)
        .group_by_key()
        .count("n")
        .to_stream()
        .map_values(lambda v: str(v))
        .to("out", OUT)
    )


@scenario("global join", "after a key change no repartition is needed", EVENTS)
def _(b):
    table = b.global_table("global", STRINGS, "glob")
    b.stream("stream", STRINGS).select_key(lambda k, v: v).join(table, plus, key=lambda k, v: k).to("out", OUT)


@scenario("global table", "alone", EVENTS)
def _(b):
    b.global_table("global", STRINGS, "glob")
    b.stream("stream", STRINGS).to("out", OUT)
