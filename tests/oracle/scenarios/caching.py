"""What caches change: which updates are seen, in which order."""

from __future__ import annotations

from headrace import Consumed, Grouped, Materialized, Processor, TimeWindows
from tests.oracle.scenario import Config, pipe, scenario
from tests.oracle.scenarios.common import OUT, OUT_LONG, STRINGS, L, S, ms, plus, to_windowed

SPREAD = [
    pipe("in", "k", "c b a b c", 1, (("h", b"1"),)),
    pipe("in", "k", "b a", 2),
    pipe("in", "k", "a a a", 0),
    pipe("in", "k", "", 3),
]


@scenario("cache", "one input, several updates of a key", SPREAD)
def _(b):
    (
        b.stream("in", STRINGS)
        .flat_map(lambda k, v: [(word, word) for word in v.split()])
        .group_by_key(Grouped(S, S))
        .count("n")
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario(
    "cache",
    "several updates of a key without repartition",
    [pipe("in", "k", "x y z", 1), pipe("in", "j", "y", 2), pipe("in", "k", "y y", 0)],
)
def _(b):
    b.stream("in", STRINGS).flat_map_values(lambda v: v.split()).group_by_key().count("n").to_stream().to(
        "out", OUT_LONG
    )


@scenario("cache", "order of several keys", SPREAD)
def _(b):
    (
        b.stream("in", STRINGS)
        .flat_map(lambda k, v: [(word, word) for word in v.split()])
        .to_table(Materialized("t", key=S, value=S))
        .to_stream()
        .to("out", OUT)
    )


@scenario("cache", "windows of several keys", SPREAD)
def _(b):
    (
        b.stream("in", STRINGS)
        .flat_map(lambda k, v: [(word, word) for word in v.split()])
        .group_by_key(Grouped(S, S))
        .windowed_by(TimeWindows(ms(10), advance=ms(4), grace=ms(10)))
        .count("n")
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario("cache", "one store cached, the next not", SPREAD)
def _(b):
    (
        b.stream("in", STRINGS)
        .flat_map_values(lambda v: v.split())
        .group_by_key()
        .count("n")
        .map_values(lambda v: v * 10, Materialized("times-ten", key=S, value=L, caching=False))
        .filter(lambda k, v: v > 20, Materialized("big", key=S, value=L))
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("cache", "the first store not cached, the next is", SPREAD)
def _(b):
    (
        b.stream("in", STRINGS)
        .flat_map_values(lambda v: v.split())
        .group_by_key()
        .count(Materialized("n", caching=False))
        .map_values(lambda v: v * 10, Materialized("times-ten", key=S, value=L))
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("cache", "old values when an aggregation is grouped again", SPREAD)
def _(b):
    (
        b.stream("in", STRINGS)
        .flat_map_values(lambda v: v.split())
        .group_by_key()
        .count("n")
        .group_by(lambda k, v: ("all", v), Grouped(S, L))
        .reduce(lambda a, v: a + v, lambda a, v: a - v, Materialized("sum", key=S, value=L))
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("cache", "joins of cached tables", SPREAD)
def _(b):
    g = b.stream("in", STRINGS).flat_map_values(lambda v: v.split()).group_by_key()
    counts = g.count("n")
    last = g.reduce(lambda a, v: v, Materialized("last", key=S, value=S))
    counts.join(last, plus, Materialized("j", key=S, value=S)).to_stream().to("out", OUT)


@scenario(
    "cache",
    "tombstones inside one input",
    [pipe("in", "k", "x - y", 1), pipe("in", "k", "-", 2), pipe("in", "j", "- -", 3), pipe("in", "k", "z -", 4)],
)
def _(b):
    (
        b.stream("in", STRINGS)
        .flat_map_values(lambda v: [None if word == "-" else word for word in v.split()])
        .to_table(Materialized("t", key=S, value=S))
        .to_stream()
        .to("out", OUT)
    )


@scenario("cache", "too small for what it holds", SPREAD, Config(cache_max_bytes=300))
def _(b):
    (
        b.stream("in", STRINGS)
        .flat_map(lambda k, v: [(word, word) for word in v.split()])
        .group_by_key(Grouped(S, S))
        .count("n")
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario(
    "cache",
    "evicts while one input is processed",
    [
        pipe("in", "k", " ".join(f"word{n % 7}" for n in range(20)), 1),
        pipe("in", "k", "word1 word2", 2),
    ],
    Config(cache_max_bytes=600),
)
def _(b):
    (
        b.stream("in", Consumed(S, S))
        .process(Spread)
        .to_table(Materialized("t", key=S, value=S))
        .to_stream()
        .to("out", OUT)
    )


class Spread(Processor):
    """Each word becomes a record of its own key."""

    def process(self, record):
        for number, word in enumerate(record.value.split()):
            self.ctx.forward(record.with_key(word).with_value(f"{word}-{number}"))
