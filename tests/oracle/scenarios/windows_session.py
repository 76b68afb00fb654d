"""Session windows."""

from __future__ import annotations

from headrace import Grouped, Materialized, SessionWindows
from tests.oracle.scenario import pipe, scenario
from tests.oracle.scenarios.common import STRINGS, S, ms, to_sessions
from tests.oracle.scenarios.windows_tumbling_hopping import NULLS, at


def _joined(b, gap, grace):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(SessionWindows(ms(gap), grace=ms(grace)))
        .aggregate(lambda: "", lambda k, v, a: a + v, lambda k, x, y: f"{x}|{y}", Materialized("agg", key=S, value=S))
        .to_stream()
        .to("out", to_sessions(S))
    )


@scenario("session", "grows, then a new one", at(0, 5, 15, 26))
def _(b):
    _joined(b, 10, 100)


@scenario("session", "exactly the gap apart, and one more", at(10, 20, 31))
def _(b):
    _joined(b, 10, 100)


@scenario("session", "a record bridges two sessions", at(0, 20, 10))
def _(b):
    _joined(b, 10, 100)


@scenario("session", "a record bridges two sessions that have grown", at(0, 4, 30, 34, 17, 100))
def _(b):
    _joined(b, 15, 1000)


@scenario("session", "out of order extends backwards", at(50, 45, 41, 60, 31, 20))
def _(b):
    _joined(b, 10, 100)


@scenario("session", "equal times", at(5, 5, 5))
def _(b):
    _joined(b, 10, 0)


@scenario("session", "inside an existing session", at(0, 8, 16, 4))
def _(b):
    _joined(b, 10, 100)


@scenario("session", "the exact edge of grace", at(10, 30, 15, 14, 31, 15, 16, 45, 35, 29, 30))
def _(b):
    _joined(b, 10, 5)


@scenario("session", "no grace", at(10, 20, 9, 31, 20, 30))
def _(b):
    _joined(b, 10, 0)


@scenario("session", "late, but joins a session that is open", at(10, 18, 27, 9, 0))
def _(b):
    _joined(b, 10, 0)


@scenario("session", "gap of zero", at(5, 5, 6, 5))
def _(b):
    _joined(b, 0, 100)


@scenario("session", "two keys", [*at(0, 5), *at(3, 50, key="b"), *at(12, 40)])
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(SessionWindows(ms(10), grace=ms(30)))
        .count("n", name="visits")
        .to_stream()
        .to("out", to_sessions())
    )


@scenario("session", "null keys and values", NULLS)
def _(b):
    b.stream("in", STRINGS).group_by_key().windowed_by(SessionWindows(ms(10))).count().to_stream().to(
        "out", to_sessions()
    )


@scenario("session", "reduce after repartition", at(0, 20, 10, 31))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by(lambda k, v: k + "!", Grouped(S, S, name="g"))
        .windowed_by(SessionWindows(ms(10), grace=ms(50)))
        .reduce(lambda a, v: a + v, Materialized("r", key=S, value=S))
        .to_stream()
        .to("out", to_sessions(S))
    )


@scenario(
    "session", "aggregate to null", [pipe("in", "a", v, t) for v, t in (("x", 0), ("del", 5), ("y", 8), ("z", 11))]
)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(SessionWindows(ms(10), grace=ms(50)))
        .aggregate(
            lambda: "",
            lambda k, v, a: None if v == "del" else (a or "") + v,
            lambda k, x, y: f"{x}|{y}",
            Materialized("agg", key=S, value=S),
        )
        .to_stream()
        .to("out", to_sessions(S))
    )


@scenario("session", "old sessions leave the store", at(1, 70_000, 130_000, 200_000))
def _(b):
    _joined(b, 10, 0)


@scenario("session", "neither cache nor changelog", at(0, 20, 10))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(SessionWindows(ms(10), grace=ms(50)))
        .count(Materialized("n", caching=False, logging=False))
        .to_stream()
        .to("out", to_sessions())
    )


@scenario("session", "table of sessions filtered", at(0, 5, 20, 12))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(SessionWindows(ms(10), grace=ms(50)))
        .count("n")
        .filter(lambda k, v: v > 1)
        .map_values(lambda v: v * 10)
        .to_stream()
        .to("out", to_sessions())
    )


EARLY = [pipe("in", "a", "1", t) for t in (0, 1000, 400_000, 10, 5_000_000)]

for _gap, _grace in ((59_999, 0), (59_999, 600_001)):

    @scenario("session", f"records earlier than the gap {_gap}, grace {_grace}", EARLY)
    def _(b, gap=_gap, grace=_grace):
        _joined(b, gap, grace)
