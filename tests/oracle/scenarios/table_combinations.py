"""Tables made by one operator and used by another: windowed, suppressed, aggregated, repartitioned, of themselves."""

from __future__ import annotations

from headrace import BufferConfig, Grouped, Materialized, Produced, Serdes, Suppressed, TimeWindows
from tests.oracle.scenario import pipe, scenario
from tests.oracle.scenarios.common import OUT, OUT_LONG, STRINGS, S, ms, plus

GROUPED = Grouped(S, S)
WINDOWED = Serdes.windowed(S, ms(10))
FINAL = Suppressed.until_window_closes(BufferConfig.unbounded())


def _pipes(*records):
    return [pipe(*record) for record in records]


BOTH = _pipes(
    ("l", "a", "1", 0),
    ("r", "a", "x", 3),
    ("l", "b", "2", 4),
    ("r", "b", None, 5),
    ("r", "b", "y", 2),
    ("l", "a", None, 12),
    ("l", "a", "3", 11),
    ("r", "a", "z", 25),
    ("l", None, "n", 26),
    ("r", "c", "w", 40),
    ("l", "c", "4", 8),
    ("l", "a", "5", 60),
    ("r", "b", None, 70),
    ("l", "b", "6", 100),
)
LEFT = [event for event in BOTH if event.topic == "l"]
FOREIGN = _pipes(
    ("l", "a", "x1", 0),
    ("r", "x", "X", 3),
    ("l", "b", "x2", 4),
    ("r", "y", "Y", 5),
    ("l", "a", "y1", 2),
    ("l", "c", "z", 12),
    ("r", "x", None, 25),
    ("l", "b", None, 26),
    ("r", None, "n", 26),
    ("r", "z", "Z", 40),
    ("l", "c", "", 8),
    ("r", "y", "YY", 60),
    ("l", "a", None, 70),
    ("l", "d", None, 71),
)


def _kept(name=None):
    return Materialized(name, key=S, value=S)


def _appended(grouped, name):
    return grouped.aggregate(lambda: "", lambda k, v, a: f"{a}{v}"[-14:], _kept(name))


def _slow(table, limit=10, buffer=None):
    return table.suppress(Suppressed.until_time_limit(ms(limit), buffer or BufferConfig.unbounded()))


def _logged(table, name):
    grouped = table.group_by(lambda k, v: (v[:1], v), GROUPED)
    return grouped.aggregate(
        lambda: "", lambda k, v, a: f"{a}+{v}"[-30:], lambda k, v, a: f"{a}-{v}"[-30:], _kept(name)
    )


def _windowed(b, topic, final):
    grouped = b.stream(topic, STRINGS).group_by_key()
    table = _appended(grouped.windowed_by(TimeWindows(ms(10), grace=ms(20))), topic)
    return table.suppress(FINAL) if final else table


for _method in ("join", "left_join", "outer_join"):

    @scenario(f"table-table {_method}", "of windows", BOTH)
    def _(b, method=_method):
        joined = getattr(_windowed(b, "l", False), method)(
            _windowed(b, "r", False), plus, Materialized("j", key=WINDOWED, value=S)
        )
        joined.to_stream().to("out", Produced(WINDOWED, S))

    @scenario(f"table-table {_method}", "of final windows", BOTH)
    def _(b, method=_method):
        joined = getattr(_windowed(b, "l", True), method)(_windowed(b, "r", True), plus)
        joined.to_stream().to("out", Produced(WINDOWED, S))

    @scenario(f"table-table {_method}", "both suppressed, one emits early", BOTH)
    def _(b, method=_method):
        left = _slow(b.table("l", STRINGS), buffer=BufferConfig.max_records(1))
        getattr(left, method)(_slow(b.table("r", STRINGS), 5), plus).to_stream().to("out", OUT)

    @scenario(f"table-table {_method}", "of streams whose keys changed", BOTH)
    def _(b, method=_method):
        left = b.stream("l", STRINGS).map(lambda k, v: (k, v and v + "!")).to_table(_kept())
        right = b.stream("r", STRINGS).select_key(lambda k, v: k).to_table(_kept("rt"), name="named")
        getattr(left, method)(right, plus, _kept("j"), name="both").to_stream().to("out", OUT)

    @scenario(f"table-table {_method}", "a table with itself", LEFT)
    def _(b, method=_method):
        table = b.table("l", STRINGS)
        getattr(table, method)(table, plus).to_stream().to("out", OUT)

    @scenario(f"table-table {_method}", "two views of one table", LEFT)
    def _(b, method=_method):
        table = b.table("l", STRINGS, "src")
        doubled = table.map_values(lambda v: v * 2, _kept("doubled"))
        getattr(table.filter(lambda k, v: v > "1"), method)(doubled, plus).to_stream().to("out", OUT)

    @scenario(f"table-table {_method}", "of aggregates, one repartitioned", BOTH)
    def _(b, method=_method):
        left = _appended(b.stream("l", STRINGS).group_by_key(), "L")
        right = b.stream("r", STRINGS).group_by(lambda k, v: k).count(Materialized("R", key=S))
        getattr(left, method)(right, plus).to_stream().to("out", OUT)

    @scenario(
        f"table-table {_method}",
        "of three, then grouped",
        [*BOTH, *_pipes(("t", "a", "q", 101), ("t", "b", None, 102))],
    )
    def _(b, method=_method):
        first = getattr(b.table("l", STRINGS), method)(b.table("r", STRINGS), plus)
        _logged(getattr(first, method)(b.table("t", STRINGS), plus), "agg").to_stream().to("out", OUT)

    @scenario(f"table-table {_method}", "then suppressed with a full buffer", BOTH)
    def _(b, method=_method):
        joined = getattr(b.table("l", STRINGS), method)(b.table("r", STRINGS), plus)
        _slow(joined, buffer=BufferConfig.max_records(2)).to_stream().to("out", OUT)


def _foreign_key(value):
    return value[:1] or None


for _method in ("join", "left_join"):

    @scenario(
        f"foreign-key {_method}",
        "one after another",
        [*FOREIGN, *_pipes(("t", "X", "q", 101), ("t", "Y", "q", 102), ("t", "X", None, 103))],
    )
    def _(b, method=_method):
        first = getattr(b.table("l", STRINGS), method)(
            b.table("r", STRINGS), plus, _kept("j1"), foreign_key=_foreign_key
        )
        second = getattr(first, method)(b.table("t", STRINGS), plus, _kept("j2"), foreign_key=lambda v: v[-1:] or None)
        second.to_stream().to("out", OUT)

    @scenario(f"foreign-key {_method}", "a table with itself", [e for e in FOREIGN if e.topic == "l"])
    def _(b, method=_method):
        table = b.table("l", STRINGS)
        getattr(table, method)(table, plus, foreign_key=lambda v: "b").to_stream().to("out", OUT)

    @scenario(f"foreign-key {_method}", "aggregates, filtered, by key and value, named", FOREIGN)
    def _(b, method=_method):
        left = _appended(b.stream("l", STRINGS).group_by_key(), "L").filter(lambda k, v: len(v) != 4)
        right = b.stream("r", STRINGS).group_by_key().count("R")
        joined = getattr(left, method)(right, plus, _kept("j"), foreign_key=lambda k, v: v[:1] or None, name="fk")
        joined.to_stream().to("out", OUT)

    @scenario(f"foreign-key {_method}", "then joined again and grouped", FOREIGN)
    def _(b, method=_method):
        left = b.table("l", STRINGS)
        joined = getattr(left, method)(b.table("r", STRINGS, "rs"), plus, foreign_key=_foreign_key)
        joined.outer_join(left, plus).to_stream().to("out", OUT)
        grouped = joined.group_by(lambda k, v: (v[:1], v), GROUPED)
        grouped.count(Materialized("c", key=S)).to_stream().to("counts", OUT_LONG)

    @scenario(f"foreign-key {_method}", "of suppressed tables", FOREIGN)
    def _(b, method=_method):
        left, right = _slow(b.table("l", STRINGS), 5), _slow(b.table("r", STRINGS), 5)
        getattr(left, method)(right, plus, foreign_key=_foreign_key).to_stream().to("out", OUT)

    @scenario(f"foreign-key {_method}", "of versioned tables into a plain store", FOREIGN)
    def _(b, method=_method):
        left = b.table("l", STRINGS, Materialized.versioned("lv", ms(1000)))
        right = b.table("r", STRINGS, Materialized.versioned("rv", ms(1000)))
        getattr(left, method)(right, plus, _kept("j"), foreign_key=_foreign_key).to_stream().to("out", OUT)

    @scenario(f"foreign-key {_method}", "into a versioned store", FOREIGN)
    def _(b, method=_method):
        store = Materialized.versioned("jv", ms(20), key=S, value=S)
        joined = getattr(b.table("l", STRINGS), method)(b.table("r", STRINGS), plus, store, foreign_key=_foreign_key)
        joined.to_stream().to("out", OUT)

    @scenario(f"foreign-key {_method}", "of windows", FOREIGN)
    def _(b, method=_method):
        joined = getattr(_windowed(b, "l", False), method)(
            b.table("r", STRINGS), plus, Materialized("j", key=WINDOWED, value=S), foreign_key=_foreign_key
        )
        joined.to_stream().to("out", Produced(WINDOWED, S))
