"""Repartitioning, names and numbers of nodes, stores and topics."""

from __future__ import annotations

from headrace import (
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Produced,
    Repartitioned,
    StreamJoined,
    TimeWindows,
)
from tests.oracle.scenario import pipe, scenario
from tests.oracle.scenarios.common import LONGS, OUT, OUT_LONG, STRINGS, L, S, ms, plus, to_windowed

WORDS = [
    pipe("in", "a", "x", 10, (("h", b"1"),)),
    pipe("in", "b", "y", 5),
    pipe("in", None, "z", 7),
    pipe("in", "c", "x", 8),
]


@scenario("repartition", "plain", WORDS)
def _(b):
    b.stream("in", STRINGS).repartition(Repartitioned(S, S)).to("out", OUT)


@scenario("repartition", "unnamed, the value serde of the stream", WORDS)
def _(b):
    b.stream("in", STRINGS).repartition(Repartitioned(S)).to("out", OUT)


@scenario("repartition", "named, with partitions", WORDS)
def _(b):
    b.stream("in", STRINGS).repartition(Repartitioned(S, S, name="again", partitions=3)).to("out", OUT)


@scenario("repartition", "after a key change, before count: once only", WORDS)
def _(b):
    (
        b.stream("in", STRINGS)
        .select_key(lambda k, v: v)
        .repartition(Repartitioned(S, S, name="by-value"))
        .group_by_key()
        .count("n")
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("repartition", "with a partitioner", WORDS)
def _(b):
    b.stream("in", STRINGS).repartition(Repartitioned(S, S, partitioner=lambda topic, k, v, n: 0)).to("out", OUT)


@scenario("repartition", "twice, of one stream", WORDS)
def _(b):
    s = b.stream("in", STRINGS).map(lambda k, v: (v, k))
    s.repartition(Repartitioned(S, S, name="one")).to("out1", OUT)
    s.repartition(Repartitioned(S, S, name="two")).to("out2", OUT)


@scenario("naming", "every stateless operator named", WORDS)
def _(b):
    (
        b.stream("in", Consumed(S, S, name="n-source"))
        .filter(lambda k, v: True, name="n-filter")
        .filter_not(lambda k, v: False, name="n-not")
        .map(lambda k, v: (k, v), name="n-map")
        .map_values(lambda v: v, name="n-values")
        .flat_map(lambda k, v: [(k, v)], name="n-flat")
        .flat_map_values(lambda v: [v], name="n-flatvalues")
        .select_key(lambda k, v: k, name="n-key")
        .peek(lambda k, v: None, name="n-peek")
        .to("out", Produced(S, S, name="n-sink"))
    )


@scenario("naming", "names use up numbers too", WORDS)
def _(b):
    (
        b.stream("in", STRINGS)
        .filter(lambda k, v: True)
        .map_values(lambda v: v, name="named")
        .filter(lambda k, v: True)
        .group_by_key()
        .count("n", name="counted")
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario(
    "naming",
    "several repartitions get their numbers",
    [pipe("in", "a", "x", 1), pipe("in", "b", "x", 2), pipe("other", "x", "o", 3), pipe("in", "c", "x", 4)],
)
def _(b):
    s = b.stream("in", STRINGS).map(lambda k, v: (v, k))
    s.group_by_key(Grouped(S, S)).count().to_stream().to("out1", OUT_LONG)
    s.join(b.stream("other", STRINGS), plus, windows=JoinWindows.of(ms(10)), joined=StreamJoined(S, S, S)).to(
        "out2", OUT
    )
    s.left_join(b.table("third", STRINGS), plus, joined=Joined(S, S, S)).to("out3", OUT)
    s.to_table(Materialized(key=S, value=S)).to_stream().to("out4", OUT)


@scenario(
    "naming",
    "aggregation after merge of rekeyed streams",
    [pipe("in", "a", "x", 1), pipe("other", "b", "x", 2), pipe("in", "c", None, 3)],
)
def _(b):
    one = b.stream("in", STRINGS).select_key(lambda k, v: v)
    two = b.stream("other", STRINGS)
    one.merge(two).group_by_key(Grouped(S, S)).count("n").to_stream().to("out", OUT_LONG)


@scenario("naming", "key change, map_values, then grouped: the repartition comes late", WORDS)
def _(b):
    (
        b.stream("in", STRINGS)
        .select_key(lambda k, v: v)
        .map_values(lambda v: v + "!")
        .filter(lambda k, v: k is not None)
        .group_by_key(Grouped(S, S))
        .count()
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("naming", "split, then each branch counted", WORDS)
def _(b):
    branches = b.stream("in", STRINGS).split("s-").branch(lambda k, v: v == "x").default_branch()
    for name in sorted(branches):
        branches[name].group_by(lambda k, v: v, Grouped(S, S, name=f"g-{name}")).count(f"n-{name}").to_stream().to(
            f"out-{name}", OUT_LONG
        )


@scenario(
    "naming",
    "an application of several parts",
    [
        pipe("orders", "o1", "p1", 1),
        pipe("prices", "p1", 5, 0),
        pipe("orders", "o2", "p1", 2),
        pipe("prices", "p1", 6, 3),
        pipe("orders", "o3", "p2", 12),
        pipe("orders", "o4", "p1", 11),
    ],
)
def _(b):
    prices = b.table("prices", LONGS, "price-store")
    by_product = b.stream("orders", STRINGS).map(lambda k, v: (v, k))
    priced = by_product.left_join(prices, lambda order, price: f"{order}:{price}", joined=Joined(S, S, L))
    priced.to("priced", OUT)
    counted = priced.group_by_key(Grouped(S, S)).windowed_by(TimeWindows(ms(10), grace=ms(5))).count("per-window")
    counted.to_stream().to("counts", to_windowed(10))
    priced.filter(lambda k, v: v.endswith("None")).to("unpriced", OUT)


@scenario("naming", "stores named with Materialized only, twice in a row", WORDS)
def _(b):
    t = b.stream("in", STRINGS).group_by_key().count("first")
    t.filter(lambda k, v: v > 0, Materialized("second", key=S, value=L)).map_values(
        lambda v: v + 1, Materialized("third", key=S, value=L)
    ).to_stream().to("out", OUT_LONG)
