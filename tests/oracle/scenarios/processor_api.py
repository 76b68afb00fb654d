"""Processors, their stores and punctuators; topologies without the DSL."""

from __future__ import annotations

import re

from headrace import (
    FixedKeyProcessor,
    Grouped,
    Processor,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    Window,
    Windowed,
)
from tests.oracle.scenario import Config, advance, pipe, scenario, trace
from tests.oracle.scenarios.common import OUT, STRINGS, L, S, ms

EVENTS = [
    pipe("in", "a", "x", 10, (("h", b"1"),)),
    pipe("in", "b", "y", 5),
    pipe("in", "a", "x", 20),
    pipe("in", None, "z", 25),
    pipe("in", "a", None, 26),
]


class Dedupe(Processor):
    """Passes each value of a key on once."""

    def init(self, ctx):
        trace("init", ctx.application_id, ctx.task_id, ctx.record_metadata)
        self.seen = ctx.state_store("seen")

    def process(self, record):
        trace(self.ctx.record_metadata, self.ctx.current_stream_time_ms(), self.ctx.current_system_time_ms(), record)
        if record.value is not None and self.seen.put_if_absent(record.value, record.key or "?") is None:
            self.ctx.forward(record.with_value(record.value + "!").with_headers((*record.headers, ("n", b"1"))))

    def close(self):
        trace("close")


@scenario("process", "store, metadata, headers", EVENTS)
def _(b):
    b.add_state_store(Stores.key_value("seen", key=S, value=S))
    b.stream("in", STRINGS).process(Dedupe, stores=("seen",)).to("out", OUT)


@scenario("process", "named, cached store without changelog", EVENTS)
def _(b):
    b.add_state_store(Stores.key_value("seen", key=S, value=S, caching=True, logging=False))
    b.stream("in", STRINGS).process(Dedupe, stores=["seen"], name="dedupe").to("out", OUT)


class Ticker(Processor):
    """Tells of every punctuation."""

    def init(self, ctx):
        self.last = None
        ctx.schedule(ms(10), PunctuationType.STREAM_TIME, self.on_stream_time)
        self.wall = ctx.schedule(ms(100), PunctuationType.WALL_CLOCK_TIME, self.on_wall_clock)

    def process(self, record):
        self.last = record

    def on_stream_time(self, time):
        trace(
            "stream",
            time,
            self.ctx.current_stream_time_ms(),
            self.ctx.current_system_time_ms(),
            self.ctx.record_metadata,
        )
        if self.last:
            self.ctx.forward(self.last.with_value(f"stream {time}").with_timestamp(time))

    def on_wall_clock(self, time):
        trace("wall", time, self.ctx.current_stream_time_ms(), self.ctx.current_system_time_ms())
        self.ctx.forward(Record("wall", f"at {time}", time, (("w", b""),)))
        if time >= 300:
            self.wall.cancel()


@scenario(
    "punctuation",
    "stream time and wall clock",
    [
        pipe("in", "a", "x", 0),
        pipe("in", "a", "y", 9),
        pipe("in", "a", "z", 10),
        advance(99),
        advance(1),
        pipe("in", "a", "q", 55),
        pipe("in", "a", "r", 57),
        pipe("in", "a", "s", 60),
        advance(250),
        pipe("in", "a", "late", 1),
        advance(50),
        advance(1000),
        pipe("in", "a", "t", 1000),
    ],
)
def _(b):
    b.stream("in", STRINGS).process(Ticker).to("out", OUT)


@scenario(
    "punctuation",
    "first record far from zero",
    [
        pipe("in", "a", "x", 1003),
        pipe("in", "a", "y", 1012),
        pipe("in", "a", "z", 1013),
        advance(1),
        pipe("in", "a", "w", 1040),
    ],
)
def _(b):
    b.stream("in", STRINGS).process(Ticker, name="tick").to("out", OUT)


class Anchored(Processor):
    """Schedules from a start on, and again from within a punctuation."""

    def init(self, ctx):
        ctx.schedule(ms(10), PunctuationType.STREAM_TIME, lambda time: trace("anchored", time), start_time=5)
        self.once = ctx.schedule(ms(7), PunctuationType.STREAM_TIME, self.first)

    def first(self, time):
        trace("first", time)
        self.once.cancel()
        self.ctx.schedule(ms(20), PunctuationType.STREAM_TIME, lambda time: trace("second", time))

    def process(self, record):
        trace("record", record.timestamp)


@scenario(
    "punctuation",
    "start time, cancelled and scheduled again",
    [pipe("in", "a", "x", t) for t in (0, 4, 5, 14, 15, 40, 41, 80)],
)
def _(b):
    b.stream("in", STRINGS).process(Anchored)


class Store(Processor):
    """Uses each method of a key-value store."""

    def init(self, ctx):
        self.kv = ctx.state_store("kv")

    def process(self, record):
        key, value = record.key, record.value
        if value == "delete":
            trace("deleted", self.kv.delete(key))
        elif value == "absent":
            trace("absent", self.kv.put_if_absent(key, "new"))
        elif value == "all":
            trace("all", list(self.kv.all()), list(self.kv.range("b", "c")), list(self.kv.prefix("b")))
        else:
            self.kv.put(key, value)
            trace("get", self.kv.get(key), self.kv.get("nothing"))


@scenario(
    "key-value store",
    "each method",
    [
        pipe("in", "a", "1", 0),
        pipe("in", "b", "2", 1),
        pipe("in", "bb", "3", 2),
        pipe("in", "c", "4", 3),
        pipe("in", "d", "5", 4),
        pipe("in", "a", "all", 5),
        pipe("in", "b", "delete", 6),
        pipe("in", "b", "delete", 7),
        pipe("in", "b", "absent", 8),
        pipe("in", "b", "absent", 9),
        pipe("in", "a", None, 10),
        pipe("in", "a", "all", 11),
    ],
)
def _(b):
    b.add_state_store(Stores.key_value("kv", key=S, value=S))
    b.stream("in", STRINGS).process(Store, ("kv",))


class Windows(Processor):
    """Uses a window store."""

    def init(self, ctx):
        self.windows = ctx.state_store("win")

    def process(self, record):
        self.windows.put(record.key, record.value, record.timestamp)
        trace(
            list(self.windows.fetch(record.key, 0, 1000)),
            list(self.windows.fetch(record.key, 10, 20)),
            sorted(self.windows.all(), key=repr),
        )


@scenario(
    "window store",
    "put and fetch",
    [
        pipe("in", k, v, t)
        for k, v, t in (("a", "1", 10), ("b", "2", 15), ("a", "3", 20), ("a", "4", 10), ("a", None, 20), ("a", "5", 0))
    ],
)
def _(b):
    b.add_state_store(Stores.window("win", key=S, value=S, retention=ms(1000), size=ms(10)))
    b.stream("in", STRINGS).process(Windows, ("win",))


class Sessions(Processor):
    """Uses a session store."""

    def init(self, ctx):
        self.sessions = ctx.state_store("ses")

    def process(self, record):
        session = Windowed(record.key, Window(record.timestamp, record.timestamp + 5))
        if record.value is None:
            self.sessions.remove(session)
        else:
            self.sessions.put(session, record.value)
        trace(list(self.sessions.fetch(record.key)))


@scenario(
    "session store",
    "put, remove and fetch",
    [
        pipe("in", k, v, t)
        for k, v, t in (("a", "1", 10), ("b", "2", 15), ("a", "3", 20), ("a", None, 10), ("a", "4", 0))
    ],
)
def _(b):
    b.add_state_store(Stores.session("ses", key=S, value=S, retention=ms(1000)))
    b.stream("in", STRINGS).process(Sessions, ("ses",))


class Versions(Processor):
    """Uses a versioned store."""

    def init(self, ctx):
        self.store = ctx.state_store("ver")

    def process(self, record):
        if record.value == "delete":
            deleted = self.store.delete(record.key, record.timestamp)
            trace("deleted", deleted and (deleted.value, deleted.timestamp))
        else:
            self.store.put(record.key, record.value, record.timestamp)
        for as_of in (None, 5, 10, 15):
            found = self.store.get(record.key, as_of=as_of)
            trace(as_of, found and (found.value, found.timestamp))


@scenario(
    "versioned store",
    "put, delete and get",
    [
        pipe("in", "a", v, t)
        for v, t in (("1", 10), ("2", 20), ("3", 5), ("delete", 12), (None, 14), ("delete", 30), ("x", 1000), ("y", 1))
    ],
)
def _(b):
    b.add_state_store(Stores.versioned("ver", key=S, value=S, history_retention=ms(500)))
    b.stream("in", STRINGS).process(Versions, ("ver",))


class Shout(FixedKeyProcessor):
    """Twice each value, later."""

    def init(self, ctx):
        self.count = ctx.state_store("count")

    def process(self, record):
        n = (self.count.get("n") or 0) + 1
        self.count.put("n", n)
        self.ctx.forward(record.with_value(f"{record.value}{n}"))
        self.ctx.forward(record.with_value(None).with_timestamp(record.timestamp + 1).with_headers(()))


@scenario("process_values", "keeps the key, no repartition afterwards", EVENTS[:3])
def _(b):
    b.add_state_store(Stores.key_value("count", key=S, value=L))
    b.stream("in", STRINGS).process_values(Shout, stores=("count",), name="shout").group_by_key().count(
        "n"
    ).to_stream().to("out", Produced(S, L))


@scenario("process_values", "unnamed", EVENTS)
def _(b):
    b.add_state_store(Stores.key_value("count", key=S, value=L))
    b.stream("in", STRINGS).process_values(Shout, ("count",)).to("out", OUT)


class Rekey(Processor):
    """The value becomes the key."""

    def process(self, record):
        if record.value is not None:
            self.ctx.forward(record.with_key(record.value))


@scenario("process", "may change the key: repartition afterwards", EVENTS)
def _(b):
    b.stream("in", STRINGS).process(Rekey).group_by_key(Grouped(S, S)).count("n").to_stream().map_values(
        lambda v: str(v)
    ).to("out", OUT)


@scenario("process", "two processors share a store", EVENTS)
def _(b):
    b.add_state_store(Stores.key_value("seen", key=S, value=S))
    s = b.stream("in", STRINGS)
    s.process(Dedupe, ("seen",), name="one").to("out-one", OUT)
    s.process(Dedupe, ("seen",), name="two").to("out-two", OUT)


class Router(Processor):
    """Sends to one child by name."""

    def process(self, record):
        if record.key == "a":
            self.ctx.forward(record, child="sink-a")
        elif record.key == "b":
            self.ctx.forward(record.with_timestamp(1), "upper")
        else:
            self.ctx.forward(record)


class Upper(Processor):
    """In capitals."""

    def process(self, record):
        self.ctx.forward(record.with_value(record.value.upper()))


@scenario("Topology.add_*", "children by name", EVENTS[:4])
def _(t):
    t.add_source("source", "in", key=S, value=S)
    t.add_processor("router", Router, "source")
    t.add_processor("upper", Upper, "router")
    t.add_sink("sink-a", "out-a", "router", key=S, value=S)
    t.add_sink("sink-b", "out-b", "upper", "router", key=S, value=S)


@scenario(
    "Topology.add_*",
    "stores, several sources and sub-topologies",
    [*EVENTS[:3], pipe("in2", "a", "x", 3), pipe("other", "o", "p", 4)],
)
def _(t):
    t.add_source("one", "in", key=S, value=S)
    t.add_source("two", "in2", key=S, value=S)
    t.add_source("three", "other", key=S, value=S)
    t.add_processor("dedupe", Dedupe, "one", "two")
    t.add_state_store(Stores.key_value("seen", key=S, value=S), "dedupe")
    t.add_sink("sink", "out", "dedupe", key=S, value=S)
    t.add_sink("copy", "out-copy", "three", key=S, value=S)


@scenario(
    "Topology.add_*",
    "default serdes, pattern, dynamic sink",
    [pipe("t1", "a", "x", 1), pipe("t2", "b", "y", 2)],
    Config(default_key_serde=S, default_value_serde=S),
)
def _(t):
    t.add_source("source", re.compile("t[0-9]"))
    t.add_processor("upper", Upper, "source")
    t.add_sink("sink", "out", "upper")


@scenario(
    "Topology.add_*",
    "a store shared by two processors joins their sub-topologies",
    [*EVENTS[:3], pipe("in2", "a", "x", 3)],
)
def _(t):
    t.add_source("one", "in", key=S, value=S)
    t.add_source("two", "in2", key=S, value=S)
    t.add_processor("first", Dedupe, "one")
    t.add_processor("second", Dedupe, "two")
    t.add_state_store(Stores.key_value("seen", key=S, value=S), "first", "second")
    t.add_sink("sink", "out", "first", "second", key=S, value=S)


@scenario("Topology.add_*", "source straight to sink, through a topic", [pipe("in", "a", 5, 1)])
def _(t):
    t.add_source("source", "in", key=S, value=L)
    t.add_sink("sink", "middle", "source", key=S, value=L)
    t.add_source("source2", "middle", key=S, value=Serdes.bytes())
    t.add_sink("sink2", "out", "source2", key=S, value=Serdes.bytes())
