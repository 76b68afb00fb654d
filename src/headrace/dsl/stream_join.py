"""Stream–stream joins: a window store on each side, and for left and outer joins one of what has not joined yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.dsl.graph import JoinGraphNode, ProcessorGraphNode
from headrace.dsl.options import StreamJoined
from headrace.topology.location import caller_location
from headrace.topology.operations import JoinWindowWrite, PassThrough, Side, StreamStreamJoin
from headrace.topology.serde_refs import SerdeRef
from headrace.topology.stores import StoreKind, StoreSpec
from headrace.windows import JoinWindows

if TYPE_CHECKING:
    from headrace.dsl.stream import KStream

Function = Callable[..., Any]


def join_streams(
    this: KStream,
    other: KStream,
    joiner: Function,
    windows: JoinWindows,
    joined: StreamJoined,
    name: str | None,
    *,
    left: bool,
    outer: bool,
) -> KStream:
    """Joins two streams; `left` keeps this side's records without a partner, `outer` also the other's."""
    from headrace.dsl.stream import KStream

    given = name or joined.name
    graph = this._graph
    if this._repartition_required:
        prefix = f"{given}-left" if given else this._name
        this = this._repartitioned(prefix, joined.key, joined.value)
    if other._repartition_required:
        prefix = f"{given}-right" if given else other._name
        other = other._repartitioned(prefix, joined.key, joined.other)
    sources = this._copartition_with(other)

    names = _Names(graph.names, given, left=left, outer=outer)
    key = joined.key or this._key
    stores = _Stores(names, joined, key, joined.value or this._value, joined.other or other._value, windows)
    location = caller_location()
    for node_name, parent, store in (
        (names.this_windowed, this, stores.this),
        (names.other_windowed, other, stores.other),
    ):
        _write_window(graph, parent, node_name, store)

    def side(name: str, which: Side, other_store: str, is_outer: bool) -> ProcessorGraphNode:
        operation = StreamStreamJoin(
            which, other_store, stores.outer_name, windows, joiner, is_outer, time_tracker=names.merge
        )
        return ProcessorGraphNode(name, lambda: operation, location, stores=lambda: side_stores[which])

    side_stores = {
        Side.LEFT: (stores.other, *stores.outer),
        Side.RIGHT: (stores.this, *stores.outer),
    }
    sides = (
        side(names.this_join, Side.LEFT, stores.other.name, left),
        side(names.other_join, Side.RIGHT, stores.this.name, outer),
    )
    node = JoinGraphNode(
        sides, (names.this_windowed, names.other_windowed), ProcessorGraphNode(names.merge, PassThrough, location)
    )
    node.accepts_null_keys = left or outer
    graph.add(node, this._node, other._node)
    return KStream(graph, node, names.merge, key, None, sources)


def _write_window(graph: Any, parent: KStream, name: str, store: StoreSpec) -> None:
    operation = JoinWindowWrite(store.name)
    graph.add(ProcessorGraphNode(name, lambda: operation, caller_location(), stores=lambda: (store,)), parent._node)


class _Names:
    """The names of a join's nodes, and the generated ones that its stores are called after."""

    def __init__(self, names: Any, given: str | None, *, left: bool, outer: bool) -> None:
        self.this_suffix = "-outer-this-join" if outer else "-this-join"
        self.other_suffix = "-outer-other-join" if left else "-other-join"
        self.outer_suffix = "-outer-shared-join" if outer else "-left-shared-join" if left else None
        self.this_windowed = names.suffixed_or(given, "-this-windowed", "KSTREAM-WINDOWED-")
        self.other_windowed = names.suffixed_or(given, "-other-windowed", "KSTREAM-WINDOWED-")
        self.this_generated = names.processor("KSTREAM-OUTERTHIS-" if outer else "KSTREAM-JOINTHIS-")
        self.other_generated = names.processor("KSTREAM-OUTEROTHER-" if left else "KSTREAM-JOINOTHER-")
        self.this_join = given + self.this_suffix if given else self.this_generated
        self.other_join = given + self.other_suffix if given else self.other_generated
        self.merge = names.suffixed_or(given, "-merge", "KSTREAM-MERGE-")


class _Stores:
    """The stores of a join: named after `store_name`, else after the generated names of the sides."""

    def __init__(
        self,
        names: _Names,
        joined: StreamJoined,
        key: SerdeRef,
        value: SerdeRef,
        other: SerdeRef,
        windows: JoinWindows,
    ) -> None:
        base = joined.store_name
        this_name = base + names.this_suffix if base else names.this_generated
        other_name = base + names.other_suffix if base else names.other_generated
        self.this = _window_store(this_name, key, value, windows, joined.logging)
        self.other = _window_store(other_name, key, other, windows, joined.logging)
        self.outer: tuple[StoreSpec, ...] = ()
        if names.outer_suffix is not None:
            number = names.this_generated.rsplit("-", 1)[1]
            outer_name = base + names.outer_suffix if base else f"KSTREAM-OUTERSHARED-{number}"
            self.outer = (
                StoreSpec(
                    f"{outer_name}-store",
                    StoreKind.OUTER_JOIN,
                    key,
                    value,
                    other,
                    retention_ms=windows.size_ms + windows.grace_ms,
                    window_size_ms=windows.size_ms,
                    logging=joined.logging,
                ),
            )

    @property
    def outer_name(self) -> str | None:
        return self.outer[0].name if self.outer else None


def _window_store(name: str, key: SerdeRef, value: SerdeRef, windows: JoinWindows, logging: bool) -> StoreSpec:
    return StoreSpec(
        f"{name}-store",
        StoreKind.WINDOW,
        key,
        value,
        retention_ms=windows.size_ms + windows.grace_ms,
        window_size_ms=windows.size_ms,
        retain_duplicates=True,
        logs_headers=True,
        logging=logging,
    )
