"""Sliding windows."""

from __future__ import annotations

from headrace import Grouped, Materialized, SlidingWindows
from tests.oracle.scenario import pipe, scenario
from tests.oracle.scenarios.common import STRINGS, S, ms, to_windowed
from tests.oracle.scenarios.windows_tumbling_hopping import NULLS, at


def _counted(b, difference, grace):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(SlidingWindows(ms(difference), grace=ms(grace)))
        .aggregate(lambda: "", lambda k, v, a: a + v, Materialized("agg", key=S, value=S))
        .to_stream()
        .to("out", to_windowed(difference, S))
    )


@scenario("sliding", "in order", at(0, 5, 10, 11, 25))
def _(b):
    _counted(b, 10, 100)


@scenario("sliding", "out of order", at(20, 10, 15, 5, 25, 12))
def _(b):
    _counted(b, 10, 100)


@scenario("sliding", "records just inside and outside the difference", at(10, 20, 21, 31, 30))
def _(b):
    _counted(b, 10, 100)


@scenario("sliding", "early records, whose window would start before zero", at(3, 1, 8, 10, 0, 11))
def _(b):
    _counted(b, 10, 100)


@scenario("sliding", "equal times", at(20, 20, 15, 15, 25))
def _(b):
    _counted(b, 10, 100)


@scenario("sliding", "the exact edge of grace", at(20, 35, 10, 15, 14, 36, 16, 15))
def _(b):
    _counted(b, 10, 5)


@scenario("sliding", "no grace", at(20, 19, 30, 20, 19, 31, 20))
def _(b):
    _counted(b, 10, 0)


@scenario("sliding", "two keys", [*at(10, 15), *at(12, 17, key="b"), *at(14)])
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(SlidingWindows(ms(5), grace=ms(50)))
        .count("n", name="slide")
        .to_stream()
        .to("out", to_windowed(5))
    )


@scenario("sliding", "null keys and values", NULLS)
def _(b):
    b.stream("in", STRINGS).group_by_key().windowed_by(SlidingWindows(ms(5), grace=ms(50))).count().to_stream().to(
        "out", to_windowed(5)
    )


@scenario("sliding", "reduce after repartition", at(10, 13, 11, 30, 12))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by(lambda k, v: k + "!", Grouped(S, S))
        .windowed_by(SlidingWindows(ms(5), grace=ms(50)))
        .reduce(lambda a, v: a + v, Materialized("r", key=S, value=S))
        .to_stream()
        .to("out", to_windowed(5, S))
    )


@scenario("sliding", "difference of one", at(5, 5, 6, 4, 7))
def _(b):
    _counted(b, 1, 50)


@scenario("sliding", "a late record between two windows", [*at(100, 200, 150, 149, 151, 50)])
def _(b):
    _counted(b, 50, 1000)


@scenario(
    "sliding", "aggregate to null", [pipe("in", "a", v, t) for v, t in (("x", 10), ("del", 12), ("y", 14), ("z", 11))]
)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(SlidingWindows(ms(5), grace=ms(50)))
        .aggregate(
            lambda: "", lambda k, v, a: None if v == "del" else (a or "") + v, Materialized("agg", key=S, value=S)
        )
        .to_stream()
        .to("out", to_windowed(5, S))
    )
