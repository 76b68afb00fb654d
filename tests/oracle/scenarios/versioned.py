"""Versioned tables."""

from __future__ import annotations

from headrace import Grouped, Materialized
from tests.oracle.scenario import pipe, scenario
from tests.oracle.scenarios.common import OUT, OUT_LONG, STRINGS, S, ms, plus

UPDATES = [
    pipe("in", "a", "1", 10),
    pipe("in", "a", "3", 30),
    pipe("in", "a", "2", 20),
    pipe("in", "a", None, 25),
    pipe("in", "a", "3'", 30),
    pipe("in", "b", None, 5),
    pipe("in", "b", "4", 40),
    pipe("in", "b", None, 50),
    pipe("in", "b", "early", 45),
    pipe("in", None, "x", 60),
    pipe("in", "c", "7", 200),
    pipe("in", "c", "old", 90),
    pipe("in", "c", "edge", 100),
    pipe("in", "a", "gone", 99),
]


def _versioned(name="ver", retention=100):
    return Materialized.versioned(name, ms(retention), key=S, value=S)


@scenario("versioned table", "out of order, beyond the history", UPDATES)
def _(b):
    b.table("in", STRINGS, _versioned()).to_stream().to("out", OUT)


@scenario("versioned table", "filter", UPDATES)
def _(b):
    b.table("in", STRINGS, _versioned()).filter(lambda k, v: "3" not in v).to_stream().to("out", OUT)


@scenario("versioned table", "filter into a versioned store", UPDATES)
def _(b):
    b.table("in", STRINGS, _versioned()).filter(lambda k, v: "3" not in v, _versioned("filtered")).to_stream().to(
        "out", OUT
    )


@scenario("versioned table", "map_values into a plain store", UPDATES)
def _(b):
    b.table("in", STRINGS, _versioned()).map_values(
        lambda v: v + "!", Materialized("plain", key=S, value=S)
    ).to_stream().to("out", OUT)


@scenario("versioned table", "grouped: out of order updates do not count", UPDATES)
def _(b):
    (
        b.table("in", STRINGS, _versioned())
        .group_by(lambda k, v: (v[0], v), Grouped(S, S))
        .aggregate(
            lambda: "", lambda k, v, a: f"{a}+{v}", lambda k, v, a: f"{a}-{v}", Materialized("agg", key=S, value=S)
        )
        .to_stream()
        .to("out", OUT)
    )


@scenario("versioned table", "grouped after a filter", UPDATES)
def _(b):
    (
        b.table("in", STRINGS, _versioned())
        .filter(lambda k, v: v != "2")
        .group_by(lambda k, v: ("all", v), Grouped(S, S))
        .count("n")
        .to_stream()
        .to("out", OUT_LONG)
    )


for _method in ("join", "left_join", "outer_join"):

    @scenario(
        f"versioned table-table {_method}",
        "out of order on both sides",
        [
            *UPDATES[:9],
            pipe("other", "a", "o1", 12),
            pipe("other", "a", "o0", 5),
            pipe("in", "a", "15", 15),
            pipe("in", "a", "35", 35),
            pipe("other", "a", None, 40),
            pipe("other", "a", "o38", 38),
            pipe("in", "a", None, 41),
            pipe("other", "b", "ob", 42),
        ],
    )
    def _(b, method=_method):
        one, other = b.table("in", STRINGS, _versioned()), b.table("other", STRINGS, _versioned("other-ver"))
        getattr(one, method)(other, plus).to_stream().to("out", OUT)

    @scenario(
        f"versioned table-table {_method}",
        "one side versioned, result materialized",
        [
            *UPDATES[:9],
            pipe("other", "a", "o1", 12),
            pipe("other", "a", "o0", 5),
            pipe("in", "a", "15", 15),
            pipe("in", "a", "35", 35),
            pipe("other", "a", None, 40),
            pipe("other", "a", "o38", 38),
            pipe("in", "a", None, 41),
            pipe("other", "b", "ob", 42),
        ],
    )
    def _(b, method=_method):
        one, other = b.table("in", STRINGS, _versioned()), b.table("other", STRINGS, "plain")
        getattr(one, method)(other, plus, Materialized("j", key=S, value=S)).to_stream().to("out", OUT)


@scenario("versioned aggregate", "into a versioned store", [event for event in UPDATES if event.value is not None])
def _(b):
    b.stream("in", STRINGS).group_by_key().reduce(lambda a, v: f"{a},{v}", _versioned()).to_stream().to("out", OUT)


@scenario("versioned to_table", "from a stream", UPDATES)
def _(b):
    b.stream("in", STRINGS).to_table(_versioned()).to_stream().to("out", OUT)


@scenario(
    "versioned table",
    "history across segments",
    [pipe("in", "a", f"v{t}", t) for t in (0, 400, 100, 800, 50, 1300, 900, 1250, 250, 301)],
)
def _(b):
    b.table("in", STRINGS, _versioned(retention=1000)).to_stream().to("out", OUT)


@scenario("versioned table", "no changelog", UPDATES[:5])
def _(b):
    b.table("in", STRINGS, Materialized.versioned("ver", ms(100), key=S, value=S, logging=False)).to_stream().to(
        "out", OUT
    )
