"""What a processor node does, as data: one frozen dataclass per operation.

The DSL makes them, the description shows the nodes that hold them, and the operators run them.
User functions arrive here with their full arity: value mappers as `(k, v)`, joiners as `(k, a, b)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.topology.serde_refs import SerdeRef
from headrace.topology.views import View
from headrace.windows import EmitStrategy, JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

Function = Callable[..., Any]


@dataclass(frozen=True)
class Operation:
    """The base of all operations."""


# --- streams -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filter(Operation):
    """Keeps the records for which `predicate(k, v)` holds, or does not hold where `negate`."""

    predicate: Function
    negate: bool = False


@dataclass(frozen=True)
class Map(Operation):
    """`mapper(k, v)` gives the new key and value."""

    mapper: Function


@dataclass(frozen=True)
class SelectKey(Operation):
    """`mapper(k, v)` gives the new key."""

    mapper: Function


@dataclass(frozen=True)
class MapValues(Operation):
    """`mapper(k, v)` gives the new value."""

    mapper: Function


@dataclass(frozen=True)
class FlatMap(Operation):
    """`mapper(k, v)` gives any number of keys and values."""

    mapper: Function


@dataclass(frozen=True)
class FlatMapValues(Operation):
    """`mapper(k, v)` gives any number of values."""

    mapper: Function


@dataclass(frozen=True)
class Peek(Operation):
    """Calls `action(k, v)` and passes the record on."""

    action: Function


@dataclass(frozen=True)
class Foreach(Operation):
    """Calls `action(k, v)` and ends the stream."""

    action: Function


@dataclass(frozen=True)
class Print(Operation):
    """Prints `[label]: key, value`."""

    label: str


@dataclass(frozen=True)
class PassThrough(Operation):
    """Passes every record on: merge, and the child of each branch."""


@dataclass(frozen=True)
class Branch(Operation):
    """Sends each record to the child of the first predicate that holds, else to the default child if there is one."""

    predicates: tuple[Function, ...]
    children: tuple[str, ...]
    default: str | None


@dataclass(frozen=True)
class Process(Operation):
    """A user's processor; `fixed_key` keeps it from changing the key."""

    supplier: Callable[[], Any]
    fixed_key: bool = False


# --- tables ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableSource(Operation):
    """Turns records into table updates; without a store nothing is kept and no old value sent."""

    store: str | None
    send_old: bool = False


@dataclass(frozen=True)
class TableFilter(Operation):
    """Filters table updates; what no longer fits becomes a tombstone."""

    predicate: Function
    negate: bool
    store: str | None
    send_old: bool
    versioned: bool = False
    """Whether the table is versioned upstream: then unnecessary tombstones are forwarded too."""


@dataclass(frozen=True)
class TableMapValues(Operation):
    """Maps the values of table updates."""

    mapper: Function
    store: str | None
    send_old: bool


@dataclass(frozen=True)
class TableTransformValues(Operation):
    """Maps the values of table updates with a stateful transformer: `init(ctx)`, `transform(k, v)`, `close()`."""

    supplier: Callable[[], Any]
    store: str | None
    send_old: bool
    parent: View | None
    """How to ask the parent table for a value, where old values are sent without a store of one's own."""


@dataclass(frozen=True)
class TableRepartitionMap(Operation):
    """`mapper(k, v)` gives the new key and value of a grouped table, for the old and the new value."""

    mapper: Function
    versioned: bool = False


@dataclass(frozen=True)
class ToStream(Operation):
    """Table updates as records: the new value of each."""


# --- aggregations ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StreamAggregate(Operation):
    """Aggregates a stream by key: `initializer()`, `aggregator(k, v, agg)`."""

    store: str
    initializer: Function
    aggregator: Function
    send_old: bool = False


@dataclass(frozen=True)
class StreamReduce(Operation):
    """Reduces a stream by key: `reducer(agg, v)`."""

    store: str
    reducer: Function
    send_old: bool = False


@dataclass(frozen=True)
class WindowAggregate(Operation):
    """Aggregates a stream by key and time window."""

    store: str
    windows: TimeWindows | UnlimitedWindows
    initializer: Function
    aggregator: Function
    emit: EmitStrategy
    send_old: bool = False


@dataclass(frozen=True)
class SlidingWindowAggregate(Operation):
    """Aggregates a stream by key and sliding window."""

    store: str
    windows: SlidingWindows
    initializer: Function
    aggregator: Function
    emit: EmitStrategy
    send_old: bool = False


@dataclass(frozen=True)
class SessionWindowAggregate(Operation):
    """Aggregates a stream by key and session; `merger(k, a, b)` joins the aggregates of two sessions."""

    store: str
    windows: SessionWindows
    initializer: Function
    aggregator: Function
    merger: Function
    emit: EmitStrategy
    send_old: bool = False


@dataclass(frozen=True)
class TablePassThrough(Operation):
    """Passes table updates on: the merge of a cogroup."""


@dataclass(frozen=True)
class TableAggregate(Operation):
    """Aggregates a grouped table: `adder(k, v, agg)` and `subtractor(k, v, agg)`."""

    store: str
    initializer: Function
    adder: Function
    subtractor: Function
    send_old: bool = False


@dataclass(frozen=True)
class TableReduce(Operation):
    """Reduces a grouped table: `adder(agg, v)` and `subtractor(agg, v)`."""

    store: str
    adder: Function
    subtractor: Function
    send_old: bool = False


# --- joins -------------------------------------------------------------------------------------------------------


class Side(Enum):
    """A side of a join."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True)
class JoinWindowWrite(Operation):
    """Keeps a record of one side of a stream–stream join for the other side."""

    store: str


@dataclass(frozen=True)
class StreamStreamJoin(Operation):
    """One side of a stream–stream join: looks the record up in the other side's window store."""

    side: Side
    other_store: str
    outer_store: str | None
    """The store of records that have not joined yet, for left and outer joins."""
    windows: JoinWindows
    joiner: Function
    """`(k, left, right)` on both sides."""
    outer: bool
    """Whether a record of this side that finds no partner is a result of its own."""
    time_tracker: str
    """Names the stream time that both sides share."""


@dataclass(frozen=True)
class StreamTableJoin(Operation):
    """Joins each record with the table's value for `key(k, v)`; `key` is the record's own where None."""

    table: View
    joiner: Function
    left: bool
    key: Function | None = None
    grace_ms: int | None = None
    buffer_store: str | None = None
    is_global: bool = False


class TableJoinKind(Enum):
    """Which results a side of a table–table join has."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    OUTER = "outer"


@dataclass(frozen=True)
class TableTableJoin(Operation):
    """One side of a table–table join: joins each update with the other table's value.

    `joiner(k, own, other)` takes this side's value first; the DSL turns it round for the right side.
    """

    kind: TableJoinKind
    other: View
    joiner: Function
    send_old: bool = False
    versioned: bool = False


@dataclass(frozen=True)
class TableJoinMerge(Operation):
    """Brings the two sides of a table–table join together, and keeps the result where it has a store."""

    store: str | None
    send_old: bool = False


@dataclass(frozen=True)
class SubscriptionSend(Operation):
    """Foreign-key join, left table: tells the right table's task which row wants which foreign key."""

    foreign_key: Function
    """`(k, v)` to the foreign key."""
    foreign_key_serde: SerdeRef
    value_serde: SerdeRef
    left: bool
    versioned: bool = False


@dataclass(frozen=True)
class SubscriptionReceive(Operation):
    """Foreign-key join, right table: keeps the subscription."""

    store: str
    foreign_key_serde: SerdeRef
    primary_key_serde: SerdeRef


@dataclass(frozen=True)
class SubscriptionJoin(Operation):
    """Foreign-key join, right table: answers a new subscription with the foreign row."""

    foreign_table: View


@dataclass(frozen=True)
class ForeignTableJoin(Operation):
    """Foreign-key join, right table: answers all subscribers of a changed foreign row."""

    store: str
    foreign_key_serde: SerdeRef
    primary_key_serde: SerdeRef
    versioned: bool = False


@dataclass(frozen=True)
class ResponseJoin(Operation):
    """Foreign-key join, left table: joins an answer, unless the row has changed since it asked."""

    primary_table: View
    value_serde: SerdeRef
    joiner: Function
    left: bool


# --- suppress ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Suppress(Operation):
    """Holds updates back in a buffer until the time limit, or until their window is closed."""

    store: str
    duration_ms: int
    until_window_close: bool
    max_records: int
    max_bytes: int
    emit_early: bool
    safe_to_drop_tombstones: bool
    send_old: bool = False
    parent: View | None = None
