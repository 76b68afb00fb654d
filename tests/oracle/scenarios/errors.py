"""Broken bytes, raising functions, missing serdes."""

from __future__ import annotations

from headrace import (
    Consumed,
    Grouped,
    Materialized,
    Processor,
    Produced,
    PunctuationType,
    Repartitioned,
    Serde,
    Serdes,
    TimeWindows,
)
from tests.oracle.scenario import Config, advance, pipe, scenario, trace
from tests.oracle.scenarios.common import JSON, LONGS, OUT, OUT_LONG, STRINGS, L, S, ms

BROKEN = [
    pipe("in", "a", 1, 1),
    pipe("in", "a", b"abc", 2, (("h", b"1"),)),
    pipe("in", "b", 2, 3),
    pipe("in", "b", b"", 4),
    pipe("in", "b", None, 5),
    pipe("in", "c", 3, 6),
]
RAISING = [
    pipe("in", "a", "1", 1),
    pipe("in", "a", "x", 2, (("h", b"1"),)),
    pipe("in", "b", "0", 3),
    pipe("in", None, "5", 4),
    pipe("in", "a", "4", 5),
]
SETTINGS = {
    "fail": Config(deserialization="fail", processing="fail"),
    "continue": Config(deserialization="continue", processing="continue"),
    "continue with dead letters": Config(deserialization="continue", processing="continue", dead_letter_topic="dlq"),
    "fail with dead letters": Config(deserialization="fail", processing="fail", dead_letter_topic="dlq"),
    "default": Config(),
}


def _for_every_handler(operator, inputs, build):
    for name, config in SETTINGS.items():
        scenario(operator, name, inputs, config)(build)


def _read_longs(b):
    b.stream("in", LONGS).map_values(lambda v: None if v is None else v + 1).to("out", OUT_LONG)


def _read_table(b):
    b.table("in", LONGS, "store").to_stream().to("out", OUT_LONG)


def _read_json(b):
    b.stream("in", JSON).map_values(lambda v: str(v)).to("out", OUT)


def _raise_in_map(b):
    b.stream("in", STRINGS).map_values(lambda v: str(10 // int(v))).to("out", OUT)


def _raise_in_aggregate(b):
    (
        b.stream("in", STRINGS)
        .group_by(lambda k, v: k, Grouped(S, S))
        .aggregate(lambda: 0, lambda k, v, a: a + 10 // int(v), Materialized("agg", key=S, value=L))
        .to_stream()
        .to("out", OUT_LONG)
    )


def _raise_downstream_of_table(b):
    b.table("in", STRINGS, "store").map_values(lambda v: str(10 // int(v))).to_stream().to("out", OUT)


def _raise_in_one_branch(b):
    s = b.stream("in", STRINGS)
    s.map_values(lambda v: str(10 // int(v))).to("out1", OUT)
    s.peek(lambda k, v: trace(k, v)).to("out2", OUT)


def _raise_in_windows(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10)))
        .aggregate(lambda: 0, lambda k, v, a: a + 10 // int(v), Materialized("agg", key=S, value=L))
        .to_stream(lambda k, v: k.key)
        .to("out", OUT_LONG)
    )


def _write_all_but_x(value):
    if value == "x":
        raise ValueError("not this one")
    return value.encode()


PICKY = Serde(_write_all_but_x, bytes.decode)

_for_every_handler("broken bytes", BROKEN, _read_longs)
_for_every_handler("broken bytes of a table", BROKEN, _read_table)
_for_every_handler(
    "broken bytes of a key",
    [pipe("in", 1, 1, 0), pipe("in", "abc", 2, 1), pipe("in", None, 3, 2)],
    lambda b: b.stream("in", Consumed(L, L)).to("out", Produced(L, L)),
)
_for_every_handler(
    "broken json", [pipe("in", "a", {"x": 1}, 0), pipe("in", "a", b"{oops", 1), pipe("in", "a", [1], 2)], _read_json
)
_for_every_handler("raising map_values", RAISING, _raise_in_map)
_for_every_handler("raising aggregate", RAISING, _raise_in_aggregate)
_for_every_handler("raising behind a table", RAISING, _raise_downstream_of_table)
_for_every_handler("raising in one branch", RAISING, _raise_in_one_branch)
_for_every_handler("raising in windows", RAISING, _raise_in_windows)


class RaisingPunctuator(Processor):
    """Raises at every second punctuation."""

    def init(self, ctx):
        self.calls = 0
        ctx.schedule(ms(10), PunctuationType.WALL_CLOCK_TIME, self.tick)

    def process(self, record):
        self.ctx.forward(record)

    def tick(self, time):
        self.calls += 1
        trace("tick", time)
        if self.calls % 2 == 0:
            raise ValueError("tock")


_for_every_handler(
    "raising punctuator",
    [pipe("in", "a", "1", 1), advance(10), advance(10), pipe("in", "a", "2", 2), advance(10)],
    lambda b: b.stream("in", STRINGS).process(RaisingPunctuator).to("out", OUT),
)
_for_every_handler(
    "value that its serde cannot write",
    RAISING[:3],
    lambda b: b.stream("in", STRINGS).to("out", Produced(S, PICKY)),
)


def _refuse(value):
    if value == "x":
        raise ValueError("not x")
    return value.encode()


_for_every_handler(
    "serde of one's own that raises",
    RAISING[:3],
    lambda b: b.stream("in", STRINGS).to("out", Produced(S, Serde(_refuse, bytes.decode))),
)
_for_every_handler(
    "serde of one's own that raises in a store",
    RAISING[:3],
    lambda b: b.stream("in", STRINGS).to_table(Materialized("t", key=S, value=Serde(_refuse, bytes.decode))),
)
_for_every_handler(
    "dynamic topic that raises",
    RAISING[:3],
    lambda b: b.stream("in", STRINGS).to(lambda k, v, ctx: f"out-{int(v)}", OUT),
)


@scenario("missing serdes", "of a source", [pipe("in", "a", "1", 1)])
def _(b):
    b.stream("in").to("out")


@scenario("missing serdes", "of a sink after map_values", [pipe("in", "a", "1", 1)])
def _(b):
    b.stream("in", STRINGS).map_values(lambda v: int(v)).to("out")


@scenario("missing serdes", "of a store after a key change", [pipe("in", "a", "1", 1)])
def _(b):
    b.stream("in", STRINGS).group_by(lambda k, v: v).count("n")


@scenario("missing serdes", "of an aggregate's value", [pipe("in", "a", "1", 1)])
def _(b):
    b.stream("in", STRINGS).group_by_key().aggregate(lambda: 0, lambda k, v, a: a + 1, "agg")


@scenario("missing serdes", "Materialized.value is enough for an aggregate", [pipe("in", "a", "1", 1)])
def _(b):
    b.stream("in", STRINGS).group_by_key().aggregate(
        lambda: 0, lambda k, v, a: a + 1, Materialized("agg", value=L)
    ).to_stream().to("out")


@scenario("missing serdes", "a count needs none", [pipe("in", "a", "1", 1)])
def _(b):
    b.stream("in", STRINGS).group_by_key().count("n").to_stream().to("out")


@scenario(
    "missing serdes", "defaults fill in", [pipe("in", "a", "1", 1)], Config(default_key_serde=S, default_value_serde=L)
)
def _(b):
    b.stream("in", STRINGS).map(lambda k, v: (v, int(v))).to("out")


@scenario(
    "missing serdes",
    "defaults that do not fit",
    [pipe("in", "a", "1", 1)],
    Config(default_key_serde=L, default_value_serde=L),
)
def _(b):
    b.stream("in", STRINGS).map_values(lambda v: v + "!").to("out")


@scenario("wrong topology", "two stores of one name", [pipe("in", "a", "1", 1)])
def _(b):
    s = b.stream("in", STRINGS).group_by_key()
    s.count("n")
    s.reduce(lambda a, v: a + v, Materialized("n", key=S, value=S))


@scenario("wrong topology", "a store that does not exist", [pipe("in", "a", "1", 1)])
def _(b):
    b.stream("in", STRINGS).process(RaisingPunctuator, stores=("nowhere",))


@scenario("wrong topology", "two nodes of one name", [pipe("in", "a", "1", 1)])
def _(b):
    b.stream("in", STRINGS).filter(lambda k, v: True, name="same").filter(lambda k, v: True, name="same").to("out", OUT)


@scenario("wrong topology", "unknown parent", [pipe("in", "a", "1", 1)])
def _(t):
    t.add_source("source", "in", key=S, value=S)
    t.add_sink("sink", "out", "nobody", key=S, value=S)


@scenario("unknown child", "forward to nobody", [pipe("in", "a", "1", 1)])
def _(t):
    class Lost(Processor):
        def process(self, record):
            self.ctx.forward(record, child="nobody")

    t.add_source("source", "in", key=S, value=S)
    t.add_processor("lost", Lost, "source")
    t.add_sink("sink", "out", "lost", key=S, value=S)


@scenario(
    "null keys",
    "dropped where Kafka Streams drops them",
    [pipe("in", None, "1", 1), pipe("in", "a", None, 2), pipe("in", "a", "3", 3)],
)
def _(b):
    s = b.stream("in", STRINGS)
    s.to("copy", OUT)
    s.group_by_key().count("n").to_stream().to("counts", OUT_LONG)
    s.repartition(Repartitioned(S, S)).to("repartitioned", OUT)
    s.to_table(Materialized("t", key=S, value=S)).to_stream().to("table", OUT)


@scenario("serdes", "json with nulls inside and text beyond ASCII", [pipe("in", "ä", {"x": None, "é": "ü"}, 1)])
def _(b):
    b.stream("in", Consumed(S, Serdes.json())).to("out", Produced(S, Serdes.json()))
