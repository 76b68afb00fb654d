"""Tumbling, hopping and unlimited windows."""

from __future__ import annotations

from headrace import Grouped, Materialized, TimeWindows, UnlimitedWindows
from tests.oracle.scenario import Config, pipe, scenario, trace
from tests.oracle.scenarios.common import OUT, STRINGS, S, ms, to_windowed


def at(*times, key="a"):
    """Records of one key at those times, each with a header of its own."""
    return [pipe("in", key, f"v{time}", time, (("at", str(time).encode()),)) for time in times]


NULLS = [pipe("in", "a", "x", 1), pipe("in", None, "y", 2), pipe("in", "a", None, 3), pipe("in", "b", "z", 12)]


@scenario("tumbling", "the edges of a window", at(0, 9, 10, 19, 20))
def _(b):
    b.stream("in", STRINGS).group_by_key().windowed_by(TimeWindows(ms(10))).count("n").to_stream().to(
        "out", to_windowed(10)
    )


@scenario("tumbling", "no grace: late by one", at(9, 10, 9, 19, 20, 19))
def _(b):
    b.stream("in", STRINGS).group_by_key().windowed_by(TimeWindows(ms(10))).count("n").to_stream().to(
        "out", to_windowed(10)
    )


@scenario("tumbling", "the exact edge of grace", at(5, 14, 6, 15, 7, 16, 8, 24, 11, 25, 12))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10), grace=ms(5)))
        .count("n")
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario("tumbling", "another key moves stream time", [*at(5), *at(30, key="b"), *at(6), *at(31)])
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10), grace=ms(5)))
        .count("n")
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario("tumbling", "null keys and values", NULLS)
def _(b):
    b.stream("in", STRINGS).group_by_key().windowed_by(TimeWindows(ms(10))).count("n").to_stream().to(
        "out", to_windowed(10)
    )


@scenario("tumbling", "reduce", [*at(1, 5, 3), *NULLS])
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10), grace=ms(20)))
        .reduce(lambda a, v: f"{a}{v}", Materialized("r", key=S, value=S))
        .to_stream()
        .to("out", to_windowed(10, S))
    )


@scenario("tumbling", "aggregate to null and back", at(1, 2, 3, 4))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10)))
        .aggregate(
            lambda: "", lambda k, v, a: None if v == "v2" else a + v, Materialized("agg", key=S, value=S), name="op"
        )
        .to_stream()
        .to("out", to_windowed(10, S))
    )


@scenario("tumbling", "unnamed store, after repartition", [*at(1, 11, 2), *at(12, key="b")])
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by(lambda k, v: k + k, Grouped(S, S))
        .windowed_by(TimeWindows(ms(10), grace=ms(5)))
        .count()
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario("tumbling", "named operator, results as text", at(1, 11, 2))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10), grace=ms(100)))
        .count("n", name="op")
        .to_stream(lambda k, v: f"{k.key}@{k.window.start}-{k.window.end}")
        .map_values(lambda v: str(v))
        .to("out", OUT)
    )


@scenario("tumbling", "retention longer than needed", at(1, 70_000, 130_000, 2, 130_001))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10)))
        .count(Materialized("n", retention=ms(120_000)))
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario("tumbling", "old windows leave the store", at(1, 70_000, 130_000, 200_000))
def _(b):
    b.stream("in", STRINGS).group_by_key().windowed_by(TimeWindows(ms(10))).count("n").to_stream().to(
        "out", to_windowed(10)
    )


@scenario("tumbling", "neither cache nor changelog", at(1, 2, 11))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10)))
        .count(Materialized("n", caching=False, logging=False))
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario("tumbling", "equal times", at(5, 5, 5))
def _(b):
    b.stream("in", STRINGS).group_by_key().windowed_by(TimeWindows(ms(10))).count("n").to_stream().to(
        "out", to_windowed(10)
    )


@scenario("tumbling", "table of windows filtered and mapped", at(1, 2, 11, 12, 13))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10)))
        .count("n")
        .filter(lambda k, v: v % 2 == 0)
        .map_values(lambda k, v: v + k.window.start)
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario("tumbling", "table of windows grouped again", [*at(1, 2, 11), *at(12, 13, key="b")])
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10)))
        .count("n")
        .group_by(lambda k, v: (k.key, str(v)), Grouped(S, S))
        .aggregate(
            lambda: "", lambda k, v, a: f"{a}+{v}", lambda k, v, a: f"{a}-{v}", Materialized("agg", key=S, value=S)
        )
        .to_stream()
        .to("out", OUT)
    )


@scenario("hopping", "each record in several windows", at(0, 4, 5, 12, 13))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10), advance=ms(5)))
        .count("n")
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario("hopping", "late for one window, not for the next", at(3, 12, 7, 16, 8, 21, 9, 11))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10), advance=ms(5), grace=ms(1)))
        .count("n")
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario("hopping", "size no multiple of the advance", at(0, 3, 7, 10, 11))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10), advance=ms(3), grace=ms(10)))
        .reduce(lambda a, v: a + v, Materialized("r", key=S, value=S))
        .to_stream()
        .to("out", to_windowed(10, S))
    )


@scenario("hopping", "two keys, after repartition", [*at(1, 6), *at(7, 3, key="b"), *at(20)])
def _(b):
    (
        b.stream("in", STRINGS)
        .select_key(lambda k, v: k * 2)
        .group_by_key(Grouped(S, S, name="g"))
        .windowed_by(TimeWindows(ms(10), advance=ms(5), grace=ms(3)))
        .aggregate(lambda: "", lambda k, v, a: a + v, Materialized("agg", key=S, value=S))
        .to_stream()
        .to("out", to_windowed(10, S))
    )


@scenario("unlimited", "from the beginning", at(0, 1_000_000, 5))
def _(b):
    b.stream("in", STRINGS).group_by_key().windowed_by(UnlimitedWindows()).count("n").to_stream(
        lambda k, v: str(k)
    ).map_values(str).to("out", OUT)


@scenario("unlimited", "from a start", at(0, 99, 100, 5, 1_000))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(UnlimitedWindows(start_on=100))
        .count("n")
        .to_stream(lambda k, v: f"{k.key}@{k.window.start}")
        .map_values(lambda v: str(v))
        .to("out", OUT)
    )


@scenario("tumbling", "default serdes", NULLS, Config(default_key_serde=S, default_value_serde=S))
def _(b):
    t = b.stream("in").group_by_key().windowed_by(TimeWindows(ms(10))).count()
    trace(t.queryable_store_name)
    t.to_stream().to("out", to_windowed(10))
