"""Streams that were repartitioned, merged, split or made of tables, then joined and windowed."""

from __future__ import annotations

from headrace import (
    Branched,
    EmitStrategy,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Produced,
    Repartitioned,
    Serdes,
    StreamJoined,
    TimeWindows,
)
from tests.oracle.scenario import Config, pipe, scenario
from tests.oracle.scenarios.common import OUT, OUT_LONG, STRINGS, L, S, keyed_plus, ms, plus

JOINED = StreamJoined(S, S, S)
WINDOWS = JoinWindows.of(ms(10), grace=ms(5))
WINDOWED = Serdes.windowed(S, ms(10))
BOTH = [
    pipe(*record)
    for record in (
        ("l", "a", "1", 0),
        ("r", "a", "x", 3),
        ("l", "b", "2", 4),
        ("r", "b", "y", 5),
        ("r", "b", "z", 2),
        ("l", "a", "3", 11),
        ("r", "a", "z", 25),
        ("l", None, "n", 26),
        ("r", None, "n", 26),
        ("r", "c", None, 26),
        ("r", "c", "w", 40),
        ("l", "c", "4", 8),
        ("l", "a", "5", 60),
        ("r", "b", "v", 70),
        ("l", "b", "6", 100),
        ("l", "d", "e", 101),
        ("l", "z", "e", 200),
    )
]
LEFT = [event for event in BOTH if event.topic == "l"]

for _method in ("join", "left_join", "outer_join"):
    for _case, _joined in {
        "named": StreamJoined(S, S, S, name="nm"),
        "stores named": StreamJoined(S, S, S, store_name="st"),
        "all named": StreamJoined(S, S, S, name="nm", store_name="st"),
    }.items():

        @scenario(f"stream-stream {_method}", f"both sides rekeyed, {_case}", BOTH)
        def _(b, method=_method, joined=_joined):
            left = b.stream("l", STRINGS).select_key(lambda k, v: k)
            right = b.stream("r", STRINGS).select_key(lambda k, v: k)
            getattr(left, method)(right, plus, windows=WINDOWS, joined=joined).to("out", OUT)

    @scenario(f"stream-stream {_method}", "one rekeyed stream in three joins", BOTH)
    def _(b, method=_method):
        left, right = b.stream("l", STRINGS).select_key(lambda k, v: k), b.stream("r", STRINGS)
        getattr(left, method)(right, plus, windows=WINDOWS, joined=JOINED).to("out", OUT)
        getattr(left, method)(right, plus, windows=JoinWindows.of(ms(2)), joined=JOINED).to("out2", OUT)
        back = JoinWindows(before=ms(2), after=ms(7))
        getattr(right, method)(left, plus, windows=back, joined=StreamJoined(S, S, S, name="back")).to("out2", OUT)

    @scenario(f"stream-stream {_method}", "of a merge of repartitioned streams", BOTH)
    def _(b, method=_method):
        left, right = b.stream("l", STRINGS).repartition(Repartitioned(S, S, name="again")), b.stream("r", STRINGS)
        merged = left.merge(right.map(lambda k, v: (k, v)))
        getattr(merged, method)(right, plus, windows=WINDOWS, joined=JOINED).to("out", OUT)

    @scenario(f"stream-stream {_method}", "of two branches", BOTH)
    def _(b, method=_method):
        branches = (
            b.stream(["l", "r"], STRINGS)
            .split("s-")
            .branch(lambda k, v: v is not None and v in "123456", Branched("number"))
            .default_branch(Branched("text"))
        )
        getattr(branches["s-number"], method)(branches["s-text"], plus, windows=WINDOWS, joined=JOINED).to("out", OUT)

    @scenario(f"stream-stream {_method}", "a rekeyed stream with itself", LEFT)
    def _(b, method=_method):
        left = b.stream("l", STRINGS).map(lambda k, v: (k, v))
        getattr(left, method)(left, plus, windows=WINDOWS, joined=JOINED).to("out", OUT)

    @scenario(f"stream-stream {_method}", "then windows on close", BOTH)
    def _(b, method=_method):
        joined = getattr(b.stream("l", STRINGS), method)(
            b.stream("r", STRINGS), keyed_plus, windows=WINDOWS, joined=JOINED
        )
        windowed = joined.group_by_key(Grouped(S, S)).windowed_by(TimeWindows(ms(10), grace=ms(5), advance=ms(3)))
        table = windowed.emit_strategy(EmitStrategy.on_window_close()).aggregate(
            lambda: "", lambda k, v, a: f"{a}{v}"[-14:], Materialized("w", key=S, value=S)
        )
        table.to_stream().to("out", Produced(WINDOWED, S))

    @scenario(f"stream-stream {_method}", "default serdes", BOTH, Config(default_key_serde=S, default_value_serde=S))
    def _(b, method=_method):
        getattr(b.stream("l"), method)(b.stream("r"), plus, windows=JoinWindows.of(ms(10))).to("out")


for _method in ("join", "left_join"):

    @scenario(f"stream-table {_method}", "with a table of the stream itself", LEFT)
    def _(b, method=_method):
        s = b.stream("l", STRINGS)
        getattr(s, method)(s.group_by_key().count("n"), plus, joined=Joined(S, S, L)).to("out", OUT)

    @scenario(f"stream-table {_method}", "with a table of windows by their bare key", BOTH)
    def _(b, method=_method):
        counts = b.stream("r", STRINGS).group_by_key().windowed_by(TimeWindows(ms(10), grace=ms(50))).count("n")
        table = (
            counts.to_stream(lambda k, v: k.key)
            .map_values(lambda v: str(v))
            .to_table(Materialized("t", key=S, value=S))
        )
        getattr(b.stream("l", STRINGS), method)(table, plus, joined=Joined(S, S, S)).to("out", OUT)

    @scenario(f"stream-table {_method}", "rekeyed, versioned table, grace, named", BOTH)
    def _(b, method=_method):
        table = b.table("r", STRINGS, Materialized.versioned("v", ms(100)))
        joined = Joined(S, S, S, grace=ms(10), name="gj")
        getattr(b.stream("l", STRINGS).map(lambda k, v: (k, v)), method)(table, plus, joined=joined).to("out", OUT)

    @scenario(f"stream-table {_method}", "grace needs a versioned table", BOTH)
    def _(b, method=_method):
        table = b.table("r", STRINGS, "plain")
        getattr(b.stream("l", STRINGS), method)(table, plus, joined=Joined(S, S, S, grace=ms(10))).to("out", OUT)

    @scenario(f"stream-table {_method}", "grace longer than the history", BOTH)
    def _(b, method=_method):
        table = b.table("r", STRINGS, Materialized.versioned("v", ms(5)))
        getattr(b.stream("l", STRINGS), method)(table, plus, joined=Joined(S, S, S, grace=ms(10))).to("out", OUT)

    @scenario(f"global {_method}", "twice after repartition, then counted", BOTH)
    def _(b, method=_method):
        table = b.global_table("r", STRINGS, "gs")
        s = b.stream("l", STRINGS).select_key(lambda k, v: k).repartition(Repartitioned(S, S))
        once = getattr(s, method)(table, keyed_plus, key=lambda k, v: k)
        twice = getattr(once, method)(table, plus, key=lambda k, v: "b", name="second")
        twice.group_by_key(Grouped(S, S)).count("n").to_stream().to("out", OUT_LONG)


for _method in ("left_join", "outer_join"):

    @scenario("repartition", f"after a {_method} drops records without a key, before it keeps them", BOTH)
    def _(b, method=_method):
        left = b.stream("l", STRINGS).repartition(Repartitioned(S, S, name="before"))
        joined = getattr(left, method)(b.stream("r", STRINGS), plus, windows=WINDOWS, joined=JOINED)
        joined.to("joined", OUT)
        joined.repartition(Repartitioned(S, S, name="after")).to("out", OUT)
