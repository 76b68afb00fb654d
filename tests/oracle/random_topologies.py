"""Random topologies: a list of steps, each of which applies to a stream or to a table.

A step that does not fit what the steps before it made is left out, so every list of steps is a topology, and so is
every part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace import (
    BufferConfig,
    EmitStrategy,
    FixedKeyProcessor,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Processor,
    Produced,
    PunctuationType,
    Record,
    Repartitioned,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    Suppressed,
    TimeWindows,
)
from tests.oracle.scenarios.common import STRINGS, S, ms, plus

GROUPED = Grouped(S, S)
INPUTS = ("in", "other", "rows", "everywhere")
"""A stream to begin with, and a stream, a table and a global table to join with."""


@dataclass(frozen=True)
class Step:
    """An operator by name, and numbers that choose among its variants."""

    operator: str
    variant: int = 0
    size: int = 10
    grace: int = 0

    def __str__(self) -> str:
        return f"{self.operator}({self.variant}, size={self.size}, grace={self.grace})"


class _Parts:
    """What the steps work with: the current stream or table, and the other inputs."""

    def __init__(self, b: Any) -> None:
        self.current = b.stream("in", STRINGS)
        self.is_table = False
        self.other = b.stream("other", STRINGS)
        self.rows = b.table("rows", STRINGS, "rows-store")
        self.everywhere = b.global_table("everywhere", STRINGS, "global-store")
        self.other.to("other-copy", Produced(S, S))
        self.rows.to_stream().to("rows-copy", Produced(S, S))

    def stream(self, stream: Any) -> None:
        self.current, self.is_table = stream, False

    def table(self, table: Any) -> None:
        self.current, self.is_table = table, True


def build(b: Any, steps: list[Step]) -> None:
    """Builds the topology of the steps."""
    parts = _Parts(b)
    for number, step in enumerate(steps):
        operators = TABLE_OPERATORS if parts.is_table else STREAM_OPERATORS
        operator = operators.get(step.operator)
        if operator is not None:
            operator(parts, step, f"store-{number}")
    if parts.is_table:
        parts.stream(parts.current.to_stream())
    parts.current.to("out", Produced(S, S))


def _filter(p: _Parts, step: Step, name: str) -> None:
    p.stream(p.current.filter(lambda k, v: len(str(v)) % 3 != step.variant))


def _map_values(p: _Parts, step: Step, name: str) -> None:
    p.stream(p.current.map_values(lambda v: None if step.variant == 2 and v == "x" else f"{v}{step.variant}"[-12:]))


def _flat_map_values(p: _Parts, step: Step, name: str) -> None:
    p.stream(p.current.flat_map_values(lambda v: [v] * step.variant + [f"{v}"[:1]]))


def _select_key(p: _Parts, step: Step, name: str) -> None:
    p.stream(p.current.select_key(lambda k, v: k if step.variant == 0 else v and v[-1]).map_values(lambda v: v))


def _merge(p: _Parts, step: Step, name: str) -> None:
    p.stream(p.current.merge(p.other if step.variant else p.current.map_values(lambda v: f"{v}m")))


def _repartition(p: _Parts, step: Step, name: str) -> None:
    p.stream(p.current.repartition(Repartitioned(S, S, name=f"{name}-again" if step.variant else None)))


def _to_table(p: _Parts, step: Step, name: str) -> None:
    store = Materialized(name, key=S, value=S)
    if step.variant == 2:
        store = Materialized.versioned(name, ms(step.size), key=S, value=S)
    p.table(p.current.to_table(store))


def _aggregated(grouped: Any, variant: int, name: str) -> Any:
    if variant == 0:
        return grouped.count(Materialized(name, key=S)).map_values(lambda v: str(v), Materialized(key=S, value=S))
    store = Materialized(name, key=S, value=S, caching=variant == 1)
    if variant == 1:
        return grouped.reduce(lambda a, v: f"{a}{v}"[-12:], store)
    return grouped.aggregate(lambda: "", lambda k, v, a: f"{a}{v}"[-12:] if v != "z" else None, store)


def _group_by_key(p: _Parts, step: Step, name: str) -> None:
    p.table(_aggregated(p.current.group_by_key(GROUPED), step.variant, name))


def _group_by(p: _Parts, step: Step, name: str) -> None:
    p.table(_aggregated(p.current.group_by(lambda k, v: v and v[0], GROUPED), step.variant, name))


def _windowed(p: _Parts, step: Step, name: str) -> None:
    grouped = p.current.group_by_key(GROUPED)
    advance = ms(max(1, step.size // 2)) if step.variant else None
    _flatten(p, _in_windows(grouped.windowed_by(TimeWindows(ms(step.size), ms(step.grace), advance)), step, name))


def _sliding(p: _Parts, step: Step, name: str) -> None:
    windows = SlidingWindows(ms(step.size), ms(step.grace))
    _flatten(p, _in_windows(p.current.group_by_key(GROUPED).windowed_by(windows), step, name))


def _session(p: _Parts, step: Step, name: str) -> None:
    windowed = p.current.group_by_key(GROUPED).windowed_by(SessionWindows(ms(step.size), ms(step.grace)))
    if step.variant == 1:
        windowed = windowed.emit_strategy(EmitStrategy.on_window_close())
    store = Materialized(name, key=S, value=S)
    merger = lambda k, a, b: f"{a}|{b}"[-12:]
    table = windowed.aggregate(lambda: "", lambda k, v, a: f"{a}{v}"[-12:], merger, store)
    if step.variant == 2:
        table = table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    _flatten(p, table)


def _cogroup(p: _Parts, step: Step, name: str) -> None:
    log = lambda sign: lambda k, v, a: f"{a}{sign}{v}"[-12:]
    both = p.current.group_by_key(GROUPED).cogroup(log("<")).cogroup(p.other.group_by_key(GROUPED), log(">"))
    store = Materialized(name, key=S, value=S)
    if step.variant == 0:
        p.table(both.aggregate(lambda: "", store))
    elif step.variant == 1:
        _flatten(p, both.windowed_by(SlidingWindows(ms(step.size), ms(step.grace))).aggregate(lambda: "", store))
    else:
        _flatten(p, both.windowed_by(TimeWindows(ms(step.size), ms(step.grace))).aggregate(lambda: "", store))


def _in_windows(windowed: Any, step: Step, name: str) -> Any:
    if step.variant == 2:
        windowed = windowed.emit_strategy(EmitStrategy.on_window_close())
    table = windowed.aggregate(lambda: "", lambda k, v, a: f"{a}{v}"[-12:], Materialized(name, key=S, value=S))
    if step.variant == 1:
        table = table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    return table


def _flatten(p: _Parts, table: Any) -> None:
    """Windowed keys become text, so that every step finds text."""
    p.stream(table.to_stream(lambda k, v: f"{k.key}@{k.window.start}-{k.window.end}"))


def _join_stream(p: _Parts, step: Step, name: str) -> None:
    method = ("join", "left_join", "outer_join")[step.variant]
    windows = JoinWindows(before=ms(step.size), after=ms(step.size // 2), grace=ms(step.grace))
    p.stream(getattr(p.current, method)(p.other, plus, windows=windows, joined=StreamJoined(S, S, S)))


def _join_rows(p: _Parts, step: Step, name: str) -> None:
    method = "join" if step.variant else "left_join"
    p.stream(getattr(p.current, method)(p.rows, plus, joined=Joined(S, S, S)))


class _Repeat(FixedKeyProcessor[Any, Any]):
    """Each value twice, the second time later."""

    def process(self, record: Any) -> None:
        self.ctx.forward(record)
        self.ctx.forward(record.with_value(f"{record.value}~"[-12:]).with_timestamp(record.timestamp + 3))


class _Ticker(Processor[Any, Any]):
    """Passes everything on, and tells the time every 10 milliseconds."""

    def init(self, ctx: Any) -> None:
        ctx.schedule(ms(10), PunctuationType.STREAM_TIME, lambda time: ctx.forward(Record("a", f"t{time}", time, ())))

    def process(self, record: Any) -> None:
        self.ctx.forward(record)


def _process(p: _Parts, step: Step, name: str) -> None:
    p.stream(p.current.process(_Ticker) if step.variant == 2 else p.current.process_values(_Repeat))


def _split(p: _Parts, step: Step, name: str) -> None:
    branches = p.current.split(f"{name}-").branch(lambda k, v: v is not None and "x" in v).default_branch()
    first, second = (branches[key] for key in sorted(branches))
    if step.variant == 0:
        p.stream(first.merge(second))
    else:
        windows = JoinWindows.of(ms(step.size), grace=ms(step.grace))
        joined = StreamJoined(S, S, S, name=name if step.variant == 1 else None)
        p.stream(first.left_join(second, plus, windows=windows, joined=joined))


def _join_everywhere(p: _Parts, step: Step, name: str) -> None:
    method = "join" if step.variant else "left_join"
    p.stream(getattr(p.current, method)(p.everywhere, plus, key=lambda k, v: v and v[0]))


def _filter_table(p: _Parts, step: Step, name: str) -> None:
    store = Materialized(name, key=S, value=S) if step.variant else None
    p.table(p.current.filter(lambda k, v: len(v) % 2 == 1, store))


def _map_table(p: _Parts, step: Step, name: str) -> None:
    store = Materialized(name if step.variant else None, key=S, value=S)
    p.table(p.current.map_values(lambda v: None if v == "y" else f"{v}!"[-12:], store))


def _join_table(p: _Parts, step: Step, name: str) -> None:
    method = ("join", "left_join", "outer_join")[step.variant]
    p.table(getattr(p.current, method)(p.rows, plus, Materialized(name, key=S, value=S)))


def _join_foreign(p: _Parts, step: Step, name: str) -> None:
    method = "join" if step.variant else "left_join"
    foreign_key = lambda v: v[:1] or None
    p.table(getattr(p.current, method)(p.rows, plus, Materialized(name, key=S, value=S), foreign_key=foreign_key))


def _regroup(p: _Parts, step: Step, name: str) -> None:
    grouped = p.current.group_by(lambda k, v: (v[:1] if step.variant else "all", v), GROUPED)
    log = lambda sign: lambda k, v, a: f"{a}{sign}{v}"[-12:]
    p.table(grouped.aggregate(lambda: "", log("+"), log("-"), Materialized(name, key=S, value=S)))


def _suppress(p: _Parts, step: Step, name: str) -> None:
    buffer = BufferConfig.max_records(2) if step.variant else BufferConfig.unbounded()
    p.table(p.current.suppress(Suppressed.until_time_limit(ms(step.size), buffer)))


def _join_other(p: _Parts, step: Step, name: str) -> None:
    method = ("join", "left_join", "outer_join")[step.variant]
    other = p.other.map(lambda k, v: (k, v)).to_table(Materialized(key=S, value=S))
    p.table(getattr(p.current, method)(other, plus))


def _join_itself(p: _Parts, step: Step, name: str) -> None:
    method = ("join", "left_join", "outer_join")[step.variant]
    p.table(getattr(p.current.filter(lambda k, v: v != "y"), method)(p.current.map_values(lambda v: f"{v}?"), plus))


def _to_stream(p: _Parts, step: Step, name: str) -> None:
    p.stream(p.current.to_stream())


Operator = Callable[[_Parts, Step, str], None]
STREAM_OPERATORS: dict[str, Operator] = {
    "filter": _filter,
    "map_values": _map_values,
    "flat_map_values": _flat_map_values,
    "select_key": _select_key,
    "merge": _merge,
    "repartition": _repartition,
    "to_table": _to_table,
    "group_by_key": _group_by_key,
    "group_by": _group_by,
    "windowed": _windowed,
    "sliding": _sliding,
    "session": _session,
    "join": _join_stream,
    "join_rows": _join_rows,
    "join_everywhere": _join_everywhere,
    "cogroup": _cogroup,
    "process": _process,
    "split": _split,
}
TABLE_OPERATORS: dict[str, Operator] = {
    "filter": _filter_table,
    "map_values": _map_table,
    "join": _join_table,
    "join_rows": _join_foreign,
    "group_by": _regroup,
    "suppress": _suppress,
    "merge": _join_other,
    "split": _join_itself,
    "select_key": _to_stream,
    "to_table": _to_stream,
}
