"""Operators without state."""

from __future__ import annotations

import re

from headrace import Branched, Consumed, Produced, Serdes
from tests.oracle.scenario import Config, pipe, scenario, trace
from tests.oracle.scenarios.common import JSON, LONGS, OUT, OUT_JSON, OUT_LONG, STRINGS, L, S

WORDS = [
    pipe("in", "a", "x", 10),
    pipe("in", "b", "yy", 5),
    pipe("in", None, "z", 7),
    pipe("in", "a", None, 7),
    pipe("in", None, None, 8),
    pipe("in", "c", "", 2**40),
]
TEXT = [pipe("in", "a", "x", 10), pipe("in", "b", "yy", 5), pipe("in", None, "z", 7), pipe("in", "c", "", 3)]


@scenario("filter", "null keys and values reach the predicate", WORDS)
def _(b):
    b.stream("in", STRINGS).filter(lambda k, v: v is not None and k != "b").to("out", OUT)


@scenario("filter_not", "the opposite", WORDS)
def _(b):
    b.stream("in", STRINGS).filter_not(lambda k, v: v is None or len(v) > 1, name="short-ones").to("out", OUT)


@scenario("filter", "any truthy answer counts", WORDS)
def _(b):
    b.stream("in", STRINGS).filter(lambda k, v: v).to("out", OUT)


@scenario("map", "new key and value, headers and time stay", [pipe("in", "a", "x", 3, (("h", b"1"), ("h", None)))])
def _(b):
    b.stream("in", STRINGS).map(lambda k, v: (v, k + v)).to("out", OUT)


@scenario("map", "to nulls", TEXT)
def _(b):
    b.stream("in", STRINGS).map(lambda k, v: (None, None) if k == "a" else (k, v), name="nulls").to("out", OUT)


@scenario("map_values", "by value", TEXT)
def _(b):
    b.stream("in", STRINGS).map_values(lambda v: v.upper() + "!").to("out", OUT)


@scenario("map_values", "by key and value, to another type", TEXT)
def _(b):
    b.stream("in", STRINGS).map_values(lambda k, v: len(v) + (0 if k is None else 100), name="size").to("out", OUT_LONG)


@scenario("map_values", "to null and from null", WORDS)
def _(b):
    b.stream("in", STRINGS).map_values(lambda v: "was null" if v is None else None).to("out", OUT)


@scenario("map_values", "of json", [pipe("in", "a", {"x": 1, "y": [1, 2]}, 0), pipe("in", "a", {"x": 2, "y": []}, 1)])
def _(b):
    b.stream("in", JSON).map_values(lambda v: {**v, "sum": sum(v["y"])}).to("out", OUT_JSON)


@scenario("flat_map", "none, one and several", TEXT)
def _(b):
    b.stream("in", STRINGS).flat_map(lambda k, v: [(c, f"{k}{i}") for i, c in enumerate(v)]).to("out", OUT)


@scenario("flat_map_values", "by value", TEXT)
def _(b):
    b.stream("in", STRINGS).flat_map_values(lambda v: list(v)).to("out", OUT)


@scenario("flat_map_values", "by key and value, with a null among them", TEXT)
def _(b):
    b.stream("in", STRINGS).flat_map_values(lambda k, v: [k, None, v], name="three").to("out", OUT)


@scenario("select_key", "then written without repartition", TEXT)
def _(b):
    b.stream("in", STRINGS).select_key(lambda k, v: v or None, name="by-value").to("out", OUT)


@scenario("peek", "sees everything, changes nothing", WORDS)
def _(b):
    b.stream("in", STRINGS).peek(lambda k, v: trace("peek", k, v), name="look").to("out", OUT)


@scenario("foreach", "ends the stream", WORDS)
def _(b):
    b.stream("in", STRINGS).foreach(lambda k, v: trace("each", k, v))


@scenario("foreach", "named, beside another branch of the stream", WORDS)
def _(b):
    s = b.stream("in", STRINGS)
    s.foreach(lambda k, v: trace(k, v), name="each")
    s.to("out", OUT)


@scenario("print", "label, no label, name", [event for event in TEXT if event.key is not None])
def _(b):
    s = b.stream("in", STRINGS)
    s.print("label")
    s.filter(lambda k, v: k == "a", name="only-a").print(name="printer")
    s.print()


@scenario(
    "merge",
    "two topics, order of arrival",
    [
        pipe("left", "a", "1", 5),
        pipe("right", "a", "2", 3),
        pipe("left", None, None, 9),
        pipe("right", "b", "3", 9),
    ],
)
def _(b):
    b.stream("left", STRINGS).merge(b.stream("right", STRINGS), name="both").to("out", OUT)


@scenario("merge", "a stream with itself", TEXT)
def _(b):
    s = b.stream("in", STRINGS)
    s.map_values(lambda v: v + "1").merge(s.map_values(lambda v: v + "2")).merge(s).to("out", OUT)


@scenario("split", "named branches with a default", WORDS)
def _(b):
    branches = (
        b.stream("in", STRINGS)
        .split("part-")
        .branch(lambda k, v: k == "a", Branched("a"))
        .branch(lambda k, v: v is None, Branched("null"))
        .default_branch(Branched("rest"))
    )
    for name, stream in sorted(branches.items()):
        stream.to(f"out-{name}", OUT)


@scenario("split", "unnamed branches, no default", WORDS)
def _(b):
    branches = (
        b.stream("in", STRINGS).split().branch(lambda k, v: k == "a").branch(lambda k, v: True).no_default_branch()
    )
    for number, (_, stream) in enumerate(sorted(branches.items())):
        stream.to(f"out-{number}", OUT)


@scenario("split", "unnamed default branch, prefix given", TEXT)
def _(b):
    branches = b.stream("in", STRINGS).split("p-").branch(lambda k, v: k == "a").default_branch()
    for name, stream in sorted(branches.items()):
        stream.to(f"out-{name}", OUT)


@scenario("split", "functions chain the branches", TEXT)
def _(b):
    branches = (
        b.stream("in", STRINGS)
        .split("f-")
        .branch(lambda k, v: k == "a", Branched("up", function=lambda s: s.map_values(lambda v: v.upper())))
        .branch(lambda k, v: k == "b", Branched(function=lambda s: s.to("out-b", OUT)))
        .default_branch(Branched("rest", function=lambda s: s.filter(lambda k, v: k is None)))
    )
    trace(sorted(branches))
    for name, stream in sorted(branches.items()):
        stream.to(f"out-{name}", OUT)


@scenario(
    "to",
    "topic chosen by key, value and context",
    [
        pipe("in", "a", "x", 10, (("h", b"1"),)),
        pipe("in", "b", "y", 5),
        pipe("in", "a", "z", 7),
    ],
)
def _(b):
    b.stream("in", STRINGS).to(
        lambda k, v, ctx: f"{ctx.topic}-{k}-{ctx.timestamp}-{ctx.offset}-{len(ctx.headers)}",
        Produced(S, S, name="dynamic"),
    )


@scenario("to", "two sinks of one topic", TEXT)
def _(b):
    s = b.stream("in", STRINGS)
    s.to("out", OUT, name="first")
    s.map_values(lambda v: v * 2).to("out", OUT)


@scenario(
    "to",
    "a chain of operators that carry headers",
    [
        pipe("in", "a", "x y", 10, (("a", b"1"), ("b", b""), ("a", b"2"))),
        pipe("in", "b", "y", 5),
    ],
)
def _(b):
    (
        b.stream("in", STRINGS)
        .flat_map_values(lambda v: v.split())
        .map_values(str.upper)
        .select_key(lambda k, v: v)
        .filter(lambda k, v: True)
        .to("out", OUT)
    )


@scenario("stream", "several topics", [pipe("t1", "a", "1", 0), pipe("t2", "a", "2", 5), pipe("t1", "a", "3", 1)])
def _(b):
    b.stream(["t1", "t2"], Consumed(S, S, name="source")).to("out", OUT)


@scenario("stream", "regular expression", [pipe("t-1", "a", "1", 0), pipe("t-22", "a", "2", 5)])
def _(b):
    b.stream(re.compile("t-[0-9]+"), STRINGS).map_values(lambda v: v + v).to("out", OUT)


@scenario("stream", "offset reset and name", TEXT)
def _(b):
    b.stream("in", Consumed(S, S, offset_reset="latest", name="the-source")).to("out", Produced(S, S, name="the-sink"))


@scenario("stream", "the application's default serdes", TEXT, Config(default_key_serde=S, default_value_serde=S))
def _(b):
    b.stream("in").map_values(lambda v: v + "!").to("out")


@scenario("stream", "nobody reads it", TEXT)
def _(b):
    b.stream("in", STRINGS)
    b.stream("other", STRINGS).to("out", OUT)


@scenario("stream", "one topic read twice is one source", TEXT)
def _(b):
    b.stream("in", STRINGS).to("out1", OUT)
    b.stream("in", STRINGS).filter(lambda k, v: k == "a").to("out2", OUT)


@scenario(
    "stream",
    "every primitive serde",
    [
        pipe("ints", b"\x00\x00\x00\x05", b"\x00\x07", 0),
        pipe("floats", b"?\x80\x00\x00", 2.5, 1),
        pipe("flags", True, b"raw", 2),
    ],
)
def _(b):
    ints = Consumed(Serdes.integer(), Serdes.short())
    b.stream("ints", ints).map(lambda k, v: (k + 1, v + 1)).to("ints-out", Produced(Serdes.integer(), Serdes.short()))
    floats = Consumed(Serdes.float(), Serdes.double())
    b.stream("floats", floats).map(lambda k, v: (k + 1, v / 2)).to(
        "floats-out", Produced(Serdes.float(), Serdes.double())
    )
    flags = Consumed(Serdes.boolean(), Serdes.bytes())
    b.stream("flags", flags).map(lambda k, v: (not k, v + b"!")).to(
        "flags-out", Produced(Serdes.boolean(), Serdes.bytes())
    )


@scenario(
    "stream",
    "longs at the limits",
    [pipe("in", "a", 2**63 - 1, 0), pipe("in", "a", -(2**63), 1), pipe("in", "a", -1, 2)],
)
def _(b):
    b.stream("in", LONGS).filter(lambda k, v: v != -1).to("out", Produced(S, L))
