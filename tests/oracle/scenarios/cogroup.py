"""Cogroup: several streams into one table."""

from __future__ import annotations

from headrace import Grouped, Materialized, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from tests.oracle.scenario import pipe, scenario
from tests.oracle.scenarios.common import OUT, STRINGS, S, ms, to_sessions, to_windowed

EVENTS = [
    pipe("one", "a", "1", 0, (("h", b"1"),)),
    pipe("two", "a", "2", 5),
    pipe("one", "b", "3", 3),
    pipe("two", None, "4", 6),
    pipe("two", "a", None, 7),
    pipe("one", "a", "5", 25),
    pipe("two", "a", "6", 12),
    pipe("two", "b", "7", 26),
    pipe("one", "a", "8", 9),
]
STORE = Materialized("agg", key=S, value=S)


def _cogrouped(b):
    one = b.stream("one", STRINGS).group_by_key(Grouped(S, S))
    two = b.stream("two", STRINGS).group_by_key(Grouped(S, S))
    return one.cogroup(lambda k, v, a: f"{a}<{v}").cogroup(two, lambda k, v, a: f"{a}>{v}")


@scenario("cogroup", "aggregate", EVENTS)
def _(b):
    _cogrouped(b).aggregate(lambda: "", STORE).to_stream().to("out", OUT)


@scenario("cogroup", "named", EVENTS)
def _(b):
    _cogrouped(b).aggregate(lambda: "", STORE, name="co").to_stream().to("out", OUT)


@scenario("cogroup", "unnamed store", EVENTS)
def _(b):
    _cogrouped(b).aggregate(lambda: "", Materialized(key=S, value=S)).to_stream().to("out", OUT)


@scenario("cogroup", "tumbling windows", EVENTS)
def _(b):
    _cogrouped(b).windowed_by(TimeWindows(ms(10), grace=ms(5))).aggregate(lambda: "", STORE).to_stream().to(
        "out", to_windowed(10, S)
    )


@scenario("cogroup", "hopping windows, named", EVENTS)
def _(b):
    (
        _cogrouped(b)
        .windowed_by(TimeWindows(ms(10), advance=ms(5), grace=ms(50)))
        .aggregate(lambda: "", STORE, name="co")
        .to_stream()
        .to("out", to_windowed(10, S))
    )


@scenario("cogroup", "sliding windows", EVENTS)
def _(b):
    _cogrouped(b).windowed_by(SlidingWindows(ms(10), grace=ms(50))).aggregate(lambda: "", STORE).to_stream().to(
        "out", to_windowed(10, S)
    )


@scenario("cogroup", "session windows", EVENTS)
def _(b):
    (
        _cogrouped(b)
        .windowed_by(SessionWindows(ms(6), grace=ms(50)))
        .aggregate(lambda: "", lambda k, x, y: f"{x}|{y}", STORE)
        .to_stream()
        .to("out", to_sessions(S))
    )


@scenario("cogroup", "session windows, named", EVENTS)
def _(b):
    (
        _cogrouped(b)
        .windowed_by(SessionWindows(ms(6)))
        .aggregate(lambda: "", lambda k, x, y: f"{x}|{y}", STORE, name="co")
        .to_stream()
        .to("out", to_sessions(S))
    )


@scenario("cogroup", "unlimited windows", EVENTS)
def _(b):
    (
        _cogrouped(b)
        .windowed_by(UnlimitedWindows())
        .aggregate(lambda: "", STORE)
        .to_stream(lambda k, v: k.key)
        .to("out", OUT)
    )


@scenario("cogroup", "one stream needs repartition", EVENTS)
def _(b):
    one = b.stream("one", STRINGS).group_by_key(Grouped(S, S))
    two = b.stream("two", STRINGS).group_by(lambda k, v: k, Grouped(S, S, name="by-key"))
    (
        one.cogroup(lambda k, v, a: f"{a}<{v}")
        .cogroup(two, lambda k, v, a: f"{a}>{v}")
        .aggregate(lambda: "", STORE)
        .to_stream()
        .to("out", OUT)
    )


@scenario("cogroup", "both need repartition, unnamed", EVENTS)
def _(b):
    one = b.stream("one", STRINGS).group_by(lambda k, v: k, Grouped(S, S))
    two = b.stream("two", STRINGS).group_by(lambda k, v: k, Grouped(S, S))
    (
        one.cogroup(lambda k, v, a: f"{a}<{v}")
        .cogroup(two, lambda k, v, a: f"{a}>{v}")
        .aggregate(lambda: "", STORE)
        .to_stream()
        .to("out", OUT)
    )


@scenario("cogroup", "a single stream", EVENTS[:1])
def _(b):
    b.stream("one", STRINGS).group_by_key().cogroup(lambda k, v, a: a + v).aggregate(lambda: "", STORE).to_stream().to(
        "out", OUT
    )


@scenario("cogroup", "three streams", [*EVENTS, pipe("three", "a", "9", 27)])
def _(b):
    three = b.stream("three", STRINGS).group_by_key(Grouped(S, S))
    _cogrouped(b).cogroup(three, lambda k, v, a: f"{a}={v}").aggregate(lambda: "", STORE).to_stream().to("out", OUT)
