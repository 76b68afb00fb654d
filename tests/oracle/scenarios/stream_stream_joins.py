"""Stream–stream joins in windows."""

from __future__ import annotations

from headrace import JoinWindows, StreamJoined
from tests.oracle.scenario import pipe, scenario
from tests.oracle.scenarios.common import LONGS, OUT, STRINGS, L, S, keyed_plus, ms, plus

JOINED = StreamJoined(S, S, S)


def left(key, value, time, headers=None):
    return pipe("left", key, value, time, (("left", str(time).encode()),) if headers is None else headers)


def right(key, value, time, headers=None):
    return pipe("right", key, value, time, (("right", str(time).encode()),) if headers is None else headers)


BOTH_FIRST = [
    left("a", "l0", 0, (("side", b"l"),)),
    right("a", "r5", 5, (("side", b"r"),)),
    right("b", "r6", 6),
    left("b", "l7", 7),
    left("a", "l8", 8),
    right("a", "r8", 8),
    right("a", "r30", 30),
    left("a", "l41", 41),
    left("a", "l40", 40),
]
NULLS = [
    left(None, "l0", 0),
    right(None, "r0", 0),
    left("a", None, 1),
    right("a", "r2", 2),
    right("a", None, 3),
    left("a", "l4", 4),
    left(None, None, 50),
    right("z", "r100", 100),
    left("z", "l200", 200),
]
LATE = [
    left("a", "l0", 0),
    right("b", "r30", 30),
    left("a", "l10", 10),
    right("a", "r15", 15),
    left("b", "l19", 19),
    left("b", "l20", 20),
    left("b", "l25", 25),
    right("c", "r46", 46),
    left("c", "l60", 60),
    right("a", "r60", 60),
]
DELAYED = [
    left("a", "l0", 0),
    left("b", "l2", 2),
    right("a", "r3", 3),
    left("c", "l10", 10),
    right("d", "r11", 11),
    left("e", "l12", 12),
    right("x", "r13", 13),
    right("x", "r30", 30),
    left("x", "l100", 100),
    right("x", "r200", 200),
]
METHODS = ("join", "left_join", "outer_join")


def _every_join(case, inputs, windows, joined=JOINED, joiner=plus):
    for method in METHODS:

        @scenario(f"stream-stream {method}", case, inputs)
        def _(b, method=method):
            other = b.stream("right", STRINGS)
            getattr(b.stream("left", STRINGS), method)(other, joiner, windows=windows, joined=joined).to("out", OUT)


_every_join("both sides first, equal times, edges", BOTH_FIRST, JoinWindows.of(ms(10)))
_every_join("null keys and values", NULLS, JoinWindows.of(ms(10), grace=ms(5)), joiner=keyed_plus)
_every_join("late records at the edge of grace", LATE, JoinWindows.of(ms(10), grace=ms(5)))
_every_join("late records, no grace", LATE, JoinWindows.of(ms(10)))
_every_join("null results are delayed until the window closes", DELAYED, JoinWindows.of(ms(5)))
_every_join("null results wait for grace", DELAYED, JoinWindows.of(ms(5), grace=ms(5)))
_every_join("only before", BOTH_FIRST, JoinWindows(before=ms(10), after=ms(0), grace=ms(3)))
_every_join("only after", BOTH_FIRST, JoinWindows(before=ms(0), after=ms(10), grace=ms(3)))
_every_join("before larger than after", LATE, JoinWindows(before=ms(15), after=ms(5), grace=ms(2)))
_every_join("a window wholly in the future", BOTH_FIRST, JoinWindows(before=ms(-3), after=ms(10), grace=ms(1)))
_every_join("window of zero", BOTH_FIRST, JoinWindows.of(ms(0)))
_every_join("names", DELAYED, JoinWindows.of(ms(5)), StreamJoined(S, S, S, name="jn", store_name="st"))
_every_join("only the operator named", BOTH_FIRST, JoinWindows.of(ms(5)), StreamJoined(S, S, S, name="jn"))
_every_join(
    "only the stores named, no changelog",
    BOTH_FIRST,
    JoinWindows.of(ms(5)),
    StreamJoined(S, S, S, store_name="st", logging=False),
)


SEVERAL = [
    left("a", "l1", 1),
    left("a", "l2", 1),
    left("a", "l1", 1),
    right("a", "r1", 1),
    right("a", "r2", 1),
    left("a", "l3", 2),
    right("a", "r3", 0),
]
_every_join("several records of one key and time", SEVERAL, JoinWindows.of(ms(10), grace=ms(10)))


@scenario(
    "stream-stream join",
    "a stream with itself",
    [left("a", "1", 0), left("a", "2", 5), left("b", "3", 6), left("a", "4", 20)],
)
def _(b):
    s = b.stream("left", STRINGS)
    s.join(s, plus, windows=JoinWindows.of(ms(10), grace=ms(5)), joined=JOINED).to("out", OUT)


@scenario(
    "stream-stream join",
    "of different types",
    [left("a", "1", 0), right("a", 5, 5), right("a", 6, 50), left("a", "2", 45)],
)
def _(b):
    b.stream("left", STRINGS).join(
        b.stream("right", LONGS),
        lambda k, a, n: f"{k}{a * n}",
        windows=JoinWindows.of(ms(10), grace=ms(5)),
        joined=StreamJoined(S, S, L),
    ).to("out", OUT)


@scenario(
    "stream-stream left_join",
    "key changed on both sides",
    [left("x", "a", 0), right("y", "a", 1), left("x", "b", 5), right("z", "c", 50)],
)
def _(b):
    other = b.stream("right", STRINGS).select_key(lambda k, v: v)
    b.stream("left", STRINGS).select_key(lambda k, v: v).left_join(
        other, plus, windows=JoinWindows.of(ms(10)), joined=StreamJoined(S, S, S, name="rekeyed")
    ).to("out", OUT)


@scenario(
    "stream-stream join",
    "key changed on one side, unnamed",
    [left("x", "a", 0), right("a", "r", 1), left("x", None, 3)],
)
def _(b):
    b.stream("left", STRINGS).map(lambda k, v: (v, k)).join(
        b.stream("right", STRINGS), plus, windows=JoinWindows.of(ms(10)), joined=JOINED
    ).to("out", OUT)


@scenario(
    "stream-stream outer_join",
    "of three streams",
    [
        left("a", "l", 0),
        right("a", "r", 2),
        pipe("third", "a", "t", 3),
        pipe("third", "b", "t", 5),
        left("c", "l", 30),
        right("c", "r", 60),
        pipe("third", "z", "t", 90),
    ],
)
def _(b):
    windows = JoinWindows.of(ms(10))
    first = b.stream("left", STRINGS).outer_join(b.stream("right", STRINGS), plus, windows=windows, joined=JOINED)
    first.outer_join(b.stream("third", STRINGS), plus, windows=windows, joined=JOINED).to("out", OUT)


@scenario(
    "stream-stream left_join",
    "then counted",
    [left("a", "l", 0), right("a", "r", 2), left("b", "l", 3), left("z", "l", 40), left("y", "l", 80)],
)
def _(b):
    (
        b.stream("left", STRINGS)
        .left_join(b.stream("right", STRINGS), plus, windows=JoinWindows.of(ms(10)), joined=JOINED)
        .group_by_key()
        .count("n")
        .map_values(lambda v: str(v))
        .to_stream()
        .to("out", OUT)
    )


@scenario(
    "stream-stream left_join",
    "old records leave the stores",
    [
        left("a", "l0", 0),
        right("a", "r70", 70_000),
        left("a", "l130", 130_000),
        right("a", "r130", 130_000),
        left("b", "l", 300_000),
    ],
)
def _(b):
    b.stream("left", STRINGS).left_join(
        b.stream("right", STRINGS), plus, windows=JoinWindows.of(ms(1000)), joined=JOINED
    ).to("out", OUT)
