"""Aggregations of streams and tables without windows."""

from __future__ import annotations

from headrace import Grouped, Materialized
from tests.oracle.scenario import Config, pipe, scenario, trace
from tests.oracle.scenarios.common import JSON, LONGS, OUT, OUT_JSON, OUT_LONG, STRINGS, J, L, S

WORDS = [
    pipe("in", "a", "x", 10, (("h", b"1"),)),
    pipe("in", "b", "y", 11),
    pipe("in", "a", "z", 5),
    pipe("in", "a", None, 12),
    pipe("in", None, "n", 13),
    pipe("in", "a", "x", 12),
    pipe("in", "b", "y", 12),
]
FULL = [event for event in WORDS if event.key is not None and event.value is not None]
ROWS = [
    pipe("in", "a", {"team": "red", "n": 1}, 10),
    pipe("in", "b", {"team": "red", "n": 2}, 11),
    pipe("in", "c", {"team": "blue", "n": 4}, 9),
    pipe("in", "a", {"team": "blue", "n": 8}, 12),
    pipe("in", "a", {"team": "blue", "n": 16}, 7),
    pipe("in", "b", None, 13),
    pipe("in", "b", None, 14),
    pipe("in", "c", {"team": None, "n": 5}, 15),
    pipe("in", "c", {"team": "red", "n": 6}, 16),
    pipe("in", None, {"team": "red", "n": 100}, 17),
]


@scenario("count", "out of order, null keys and values", WORDS)
def _(b):
    b.stream("in", STRINGS).group_by_key().count("n").to_stream().to("out", OUT_LONG)


@scenario("count", "unnamed store", WORDS)
def _(b):
    t = b.stream("in", STRINGS).group_by_key().count()
    trace(t.queryable_store_name)
    t.to_stream().to("out", OUT_LONG)


@scenario("count", "operator and store named", WORDS)
def _(b):
    b.stream("in", STRINGS).group_by_key(Grouped(S, S, name="grp")).count("n", name="counter").to_stream().to(
        "out", OUT_LONG
    )


@scenario("count", "neither cache nor changelog", WORDS)
def _(b):
    b.stream("in", STRINGS).group_by_key().count(Materialized("n", caching=False, logging=False)).to_stream().to(
        "out", OUT_LONG
    )


@scenario("count", "by another key", FULL)
def _(b):
    b.stream("in", STRINGS).group_by(lambda k, v: v, Grouped(S, S)).count("n").to_stream().to("out", OUT_LONG)


@scenario("count", "by another key, unnamed", FULL)
def _(b):
    b.stream("in", STRINGS).group_by(lambda k, v: v, Grouped(S, S)).count().to_stream().to("out", OUT_LONG)


@scenario("count", "by another key, some null", WORDS)
def _(b):
    b.stream("in", STRINGS).group_by(lambda k, v: v, Grouped(S, S, name="by-value")).count("n").to_stream().to(
        "out", OUT_LONG
    )


@scenario("reduce", "the first value is taken as it is", WORDS)
def _(b):
    b.stream("in", STRINGS).group_by_key().reduce(
        lambda a, v: a + v, Materialized("all", key=S, value=S)
    ).to_stream().to("out", OUT)


@scenario("reduce", "to null", FULL)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .reduce(lambda a, v: None if v == "z" else a + v, name="red")
        .to_stream()
        .to("out", OUT)
    )


@scenario("aggregate", "stream time does not matter, the time does", WORDS)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .aggregate(lambda: "", lambda k, v, a: a + k + v, Materialized("agg", key=S, value=S))
        .to_stream()
        .to("out", OUT)
    )


@scenario("aggregate", "to null starts anew", FULL)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .aggregate(
            lambda: "0", lambda k, v, a: None if v == "z" else a + v, Materialized("agg", key=S, value=S), name="agg-op"
        )
        .to_stream()
        .to("out", OUT)
    )


@scenario("aggregate", "json aggregates", ROWS[:5])
def _(b):
    (
        b.stream("in", JSON)
        .group_by(lambda k, v: v["team"], Grouped(S, J))
        .aggregate(
            lambda: {"n": 0, "keys": []},
            lambda k, v, a: {"n": a["n"] + v["n"], "keys": [*a["keys"], k]},
            Materialized("agg", key=S, value=J),
        )
        .to_stream()
        .to("out", OUT_JSON)
    )


@scenario("two aggregations", "on one grouped stream", FULL)
def _(b):
    g = b.stream("in", STRINGS).group_by(lambda k, v: v, Grouped(S, S))
    g.count("n").to_stream().to("counts", OUT_LONG)
    g.reduce(lambda a, v: a + v, Materialized("r", key=S, value=S)).to_stream().to("sums", OUT)


@scenario("two aggregations", "on one grouped stream with a name share the repartition topic", FULL)
def _(b):
    g = b.stream("in", STRINGS).group_by(lambda k, v: v, Grouped(S, S, name="shared"))
    g.count("n").to_stream().to("counts", OUT_LONG)
    g.reduce(lambda a, v: a + v, Materialized("r", key=S, value=S)).to_stream().to("sums", OUT)


@scenario("two aggregations", "one after the other", FULL)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .count("per-key")
        .to_stream()
        .group_by(lambda k, v: str(v), Grouped(S, L))
        .count("per-count")
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("KGroupedTable.count", "rows move from group to group", ROWS)
def _(b):
    (
        b.table("in", JSON, "rows")
        .group_by(lambda k, v: (v["team"], v["n"]), Grouped(S, L))
        .count("n")
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("KGroupedTable.count", "named, of a table without store", ROWS)
def _(b):
    (
        b.table("in", JSON)
        .group_by(lambda k, v: (v["team"], v["n"]), Grouped(S, L, name="teams"))
        .count(name="size")
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("KGroupedTable.reduce", "adder and subtractor", ROWS)
def _(b):
    (
        b.table("in", JSON, "rows")
        .group_by(lambda k, v: (v["team"], v["n"]), Grouped(S, L))
        .reduce(lambda a, v: a + v, lambda a, v: a - v, Materialized("sum", key=S, value=L))
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("KGroupedTable.aggregate", "adder and subtractor with the key", ROWS)
def _(b):
    (
        b.table("in", JSON, "rows")
        .group_by(lambda k, v: (v["team"], f"{k}{v['n']}"), Grouped(S, S))
        .aggregate(
            lambda: "",
            lambda k, v, a: a + "+" + v,
            lambda k, v, a: a + "-" + v,
            Materialized("agg", key=S, value=S),
            name="log",
        )
        .to_stream()
        .to("out", OUT)
    )


@scenario("KGroupedTable.aggregate", "to null", ROWS)
def _(b):
    (
        b.table("in", JSON, "rows")
        .group_by(lambda k, v: (v["team"], v["n"]), Grouped(S, L))
        .aggregate(
            lambda: 0,
            lambda k, v, a: a + v,
            lambda k, v, a: None if a == v else a - v,
            Materialized("agg", key=S, value=L),
        )
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("KGroupedTable.reduce", "of a filtered table", ROWS)
def _(b):
    (
        b.table("in", JSON)
        .filter(lambda k, v: v["n"] != 8)
        .group_by(lambda k, v: (v["team"], v["n"]), Grouped(S, L))
        .reduce(lambda a, v: a + v, lambda a, v: a - v, Materialized("sum", key=S, value=L))
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario(
    "KGroupedTable.count", "of an aggregation: histogram", [pipe("in", k, "v", i) for i, k in enumerate("aabacbbb")]
)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .count("per-key")
        .group_by(lambda k, v: (str(v), k), Grouped(S, S))
        .count("per-count")
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("count", "default serdes", WORDS, Config(default_key_serde=S, default_value_serde=S))
def _(b):
    b.stream("in").group_by(lambda k, v: v).count("n").map_values(lambda v: str(v)).to_stream().to("out")


@scenario("aggregate", "longs", [pipe("in", "a", 2**62, 0), pipe("in", "a", -5, 1), pipe("in", "b", 7, 1)])
def _(b):
    (
        b.stream("in", LONGS)
        .group_by_key()
        .aggregate(lambda: 0, lambda k, v, a: a + v, Materialized("agg", key=S, value=L))
        .filter(lambda k, v: v > 0)
        .to_stream()
        .to("out", OUT_LONG)
    )
