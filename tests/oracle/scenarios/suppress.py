"""Suppress: final results of windows, and rate limits with buffers that fill."""

from __future__ import annotations

from headrace import BufferConfig, Grouped, Materialized, SessionWindows, SlidingWindows, Suppressed, TimeWindows
from tests.oracle.scenario import pipe, scenario
from tests.oracle.scenarios.common import OUT, OUT_LONG, STRINGS, S, ms, plus, to_sessions, to_windowed
from tests.oracle.scenarios.windows_tumbling_hopping import at

FINAL = Suppressed.until_window_closes(BufferConfig.unbounded())
KEYS = [pipe("in", key, f"v{time}", time, (("h", key.encode()),)) for time, key in enumerate("abacabbdea")]


@scenario("suppress until window closes", "no grace", at(1, 5, 10, 11, 25, 30))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10)))
        .count("n")
        .suppress(FINAL)
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario("suppress until window closes", "exactly at the end of grace", at(1, 14, 2, 15, 3, 16, 25, 40))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10), grace=ms(5)))
        .count("n")
        .suppress(FINAL)
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario(
    "suppress until window closes",
    "several keys close at once, named",
    [*at(1, 2), *at(3, 4, key="b"), *at(2, key="c"), *at(50, key="d")],
)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10), grace=ms(5)))
        .count("n")
        .suppress(FINAL.with_name("final"))
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario("suppress until window closes", "hopping windows", at(1, 6, 12, 13, 30, 50))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10), advance=ms(5), grace=ms(2)))
        .reduce(lambda a, v: a + v, Materialized("r", key=S, value=S))
        .suppress(FINAL)
        .to_stream()
        .to("out", to_windowed(10, S))
    )


@scenario("suppress until window closes", "sessions that merge", at(0, 20, 10, 60, 100))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(SessionWindows(ms(10), grace=ms(15)))
        .count("n")
        .suppress(FINAL)
        .to_stream()
        .to("out", to_sessions())
    )


@scenario("suppress until window closes", "sliding windows", at(10, 15, 12, 40, 70))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(SlidingWindows(ms(10), grace=ms(10)))
        .count("n")
        .suppress(FINAL)
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario(
    "suppress until window closes",
    "a buffer that shuts down when full",
    [*at(1), *at(2, key="b"), *at(3, key="c"), *at(4, key="d")],
)
def _(b):
    buffer = BufferConfig.max_records(2).shut_down_when_full()
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10)))
        .count("n")
        .suppress(Suppressed.until_window_closes(buffer))
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario("suppress until window closes", "filtered before and after", at(1, 2, 3, 11, 12, 30))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10)))
        .count("n")
        .filter(lambda k, v: v != 2)
        .suppress(FINAL)
        .map_values(lambda v: v * 10)
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario("suppress until window closes", "buffer without changelog", at(1, 2, 11, 30))
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .windowed_by(TimeWindows(ms(10)))
        .count("n")
        .suppress(Suppressed.until_window_closes(BufferConfig.unbounded().with_logging_disabled()))
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario(
    "suppress until time limit",
    "the last one of each interval",
    [
        *KEYS,
        pipe("in", "a", "x", 14),
        pipe("in", "a", "y", 15),
        pipe("in", "z", "y", 40),
        pipe("in", "a", "late", 2),
        pipe("in", "z", "q", 80),
    ],
)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .count("n")
        .suppress(Suppressed.until_time_limit(ms(5), BufferConfig.unbounded()))
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("suppress until time limit", "emits early by records", KEYS)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .count("n")
        .suppress(Suppressed.until_time_limit(ms(100), BufferConfig.max_records(2).emit_early_when_full()))
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("suppress until time limit", "emits early by bytes", KEYS)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .count("n")
        .suppress(Suppressed.until_time_limit(ms(100), BufferConfig.max_bytes(200)))
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("suppress until time limit", "records and bytes limited", KEYS)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .count("n")
        .suppress(Suppressed.until_time_limit(ms(4), BufferConfig.max_records(3).with_max_bytes(250)).with_name("slow"))
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("suppress until time limit", "room for nothing", KEYS[:5])
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .count("n")
        .suppress(Suppressed.until_time_limit(ms(100), BufferConfig.max_records(0)))
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("suppress until time limit", "shuts down when full of bytes", KEYS)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .count("n")
        .suppress(Suppressed.until_time_limit(ms(100), BufferConfig.max_bytes(200).shut_down_when_full()))
        .to_stream()
        .to("out", OUT_LONG)
    )


TOMBSTONES = [
    pipe("in", "a", "1", 0),
    pipe("in", "a", None, 1),
    pipe("in", "b", "2", 3),
    pipe("in", "c", None, 4),
    pipe("in", "b", None, 20),
    pipe("in", "a", "3", 21),
    pipe("in", "d", "4", 60),
    pipe("in", None, "5", 61),
    pipe("in", "d", "6", 90),
]


@scenario("suppress until time limit", "tombstones of a table", TOMBSTONES)
def _(b):
    (
        b.table("in", STRINGS, "store")
        .suppress(Suppressed.until_time_limit(ms(10), BufferConfig.unbounded()))
        .to_stream()
        .to("out", OUT)
    )


@scenario("suppress until time limit", "limit of zero", TOMBSTONES)
def _(b):
    (
        b.table("in", STRINGS, "store")
        .suppress(Suppressed.until_time_limit(ms(0), BufferConfig.unbounded()))
        .to_stream()
        .to("out", OUT)
    )


@scenario(
    "suppress until time limit",
    "then grouped: old values are those last emitted",
    [*TOMBSTONES, pipe("in", "d", "7", 120), pipe("in", "e", "7", 200)],
)
def _(b):
    (
        b.table("in", STRINGS, "store")
        .suppress(Suppressed.until_time_limit(ms(10), BufferConfig.unbounded()))
        .group_by(lambda k, v: ("all", v), Grouped(S, S))
        .aggregate(
            lambda: "", lambda k, v, a: f"{a}+{v}", lambda k, v, a: f"{a}-{v}", Materialized("agg", key=S, value=S)
        )
        .to_stream()
        .to("out", OUT)
    )


@scenario(
    "suppress until time limit",
    "then joined with another table",
    [
        pipe("in", "a", "1", 0),
        pipe("other", "a", "o", 1),
        pipe("in", "a", "2", 15),
        pipe("other", "a", "p", 16),
        pipe("in", "b", "3", 40),
    ],
)
def _(b):
    slow = b.table("in", STRINGS, "store").suppress(Suppressed.until_time_limit(ms(10), BufferConfig.unbounded()))
    slow.join(b.table("other", STRINGS), plus).to_stream().to("out", OUT)


@scenario(
    "suppress until time limit",
    "out of order times in the buffer",
    [pipe("in", k, "v", t) for k, t in (("a", 10), ("b", 5), ("a", 3), ("c", 14), ("d", 15), ("e", 30), ("f", 60))],
)
def _(b):
    (
        b.stream("in", STRINGS)
        .group_by_key()
        .count("n")
        .suppress(Suppressed.until_time_limit(ms(10), BufferConfig.unbounded()))
        .to_stream()
        .to("out", OUT_LONG)
    )
