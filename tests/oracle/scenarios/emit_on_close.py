"""Windowed aggregations that emit when a window closes."""

from __future__ import annotations

from headrace import EmitStrategy, Grouped, Materialized, SessionWindows, SlidingWindows, TimeWindows
from tests.oracle.scenario import Config, pipe, scenario
from tests.oracle.scenarios.common import STRINGS, S, ms, to_sessions, to_windowed
from tests.oracle.scenarios.windows_tumbling_hopping import NULLS, at

CLOSE = EmitStrategy.on_window_close()


@scenario("emit on close", "tumbling, no grace", at(1, 5, 9, 10, 11, 25, 30))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10)))
        .emit_strategy(CLOSE)
        .count("n")
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario("emit on close", "tumbling, the edge of grace", at(1, 14, 2, 15, 3, 16, 25, 40))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10), grace=ms(5)))
        .emit_strategy(CLOSE)
        .count("n", name="op")
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario(
    "emit on close",
    "several keys and windows at once",
    [*at(1, 2), *at(3, 14, key="b"), *at(2, key="c"), *at(50, key="d"), *at(100)],
)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10), grace=ms(5)))
        .emit_strategy(CLOSE)
        .reduce(lambda a, v: a + v, Materialized("r", key=S, value=S))
        .to_stream()
        .to("out", to_windowed(10, S))
    )


@scenario("emit on close", "hopping", at(1, 6, 12, 13, 30, 50))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10), advance=ms(5), grace=ms(2)))
        .emit_strategy(CLOSE)
        .aggregate(lambda: "", lambda k, v, a: a + v, Materialized("agg", key=S, value=S))
        .to_stream()
        .to("out", to_windowed(10, S))
    )


@scenario("emit on close", "sliding", at(10, 15, 12, 40, 70))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(SlidingWindows(ms(10), grace=ms(10)))
        .emit_strategy(CLOSE)
        .count("n")
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario("emit on close", "sessions", at(0, 20, 10, 60, 100))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(SessionWindows(ms(10), grace=ms(15)))
        .emit_strategy(CLOSE)
        .count("n")
        .to_stream()
        .to("out", to_sessions())
    )


@scenario(
    "emit on close",
    "sessions of two keys, no grace",
    [*at(0, 5), *at(6, key="b"), *at(16), *at(17, key="b"), *at(60), *at(90, key="b")],
)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(SessionWindows(ms(10)))
        .emit_strategy(CLOSE)
        .aggregate(lambda: "", lambda k, v, a: a + v, lambda k, x, y: f"{x}|{y}", Materialized("agg", key=S, value=S))
        .to_stream()
        .to("out", to_sessions(S))
    )


@scenario("emit on close", "null keys and values, after repartition", [*NULLS, *at(50)])
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by(lambda k, v: k, Grouped(S, S))
        .windowed_by(TimeWindows(ms(10)))
        .emit_strategy(CLOSE)
        .count("n")
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario(
    "emit on close",
    "headers and equal times",
    [
        pipe("in", "a", "x", 5, (("h", b"1"),)),
        pipe("in", "b", "x", 5, (("h", b"2"),)),
        pipe("in", "a", "x", 5),
        pipe("in", "z", "x", 10, (("h", b"3"),)),
    ],
)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10)))
        .emit_strategy(CLOSE)
        .count("n")
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario("emit on update", "said explicitly", at(1, 2, 11))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10)))
        .emit_strategy(EmitStrategy.on_window_update())
        .count("n")
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario(
    "emit on close",
    "windows that have left a small cache are not expired by what it still holds back",
    [*at(1, 2), *at(3, key="b"), *at(60, key="c")],
    Config(cache_max_bytes=100),
)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10), grace=ms(5)))
        .emit_strategy(CLOSE)
        .count("n")
        .to_stream()
        .to("out", to_windowed(10))
    )
