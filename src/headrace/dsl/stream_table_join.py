"""Stream–table joins: each record with the table's current value, or with the one of its own time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.dsl.graph import ProcessorGraphNode
from headrace.dsl.options import Joined
from headrace.duration import to_millis
from headrace.errors import TopologyError
from headrace.topology.location import caller_location
from headrace.topology.operations import StreamTableJoin
from headrace.topology.stores import StoreKind, StoreSpec

if TYPE_CHECKING:
    from headrace.dsl.stream import KStream
    from headrace.dsl.table import GlobalKTable, KTable

Function = Callable[..., Any]


def join_table(
    stream: KStream, table: KTable, joiner: Function, joined: Joined, name: str | None, *, left: bool
) -> KStream:
    """Joins each record of the stream with the table's value for its key."""
    given = name or joined.name
    if stream._repartition_required:
        stream = stream._repartitioned(given or stream._name, joined.key, joined.value)
    graph = stream._graph
    sources = stream._copartition_with(table)
    node_name = graph.names.given_or(given, "KSTREAM-LEFTJOIN-" if left else "KSTREAM-JOIN-")
    key = joined.key or stream._key
    grace_ms: int | None = None
    buffer: tuple[StoreSpec, ...] = ()
    if joined.grace is not None:
        grace_ms = _check_grace(table, joined)
        value = joined.value or stream._value
        buffer = (StoreSpec(f"{node_name}-Buffer", StoreKind.STREAM_BUFFER, key, value, retention_ms=grace_ms),)
    view = table.view()
    operation = StreamTableJoin(view, joiner, left, grace_ms=grace_ms, buffer_store=buffer[0].name if buffer else None)
    node = stream._attach(node_name, lambda: operation, stores=lambda: buffer, connect=view.stores)
    node.accepts_null_keys = left
    return _joined(stream, node, node_name, key, sources, required=False)


def join_global_table(
    stream: KStream, table: GlobalKTable, joiner: Function, key: Function, name: str | None, *, left: bool
) -> KStream:
    """Joins each record of the stream with the global table's value for `key(k, v)`."""
    node_name = stream._graph.names.given_or(name, "KSTREAM-LEFTJOIN-")
    operation = StreamTableJoin(table.view(), joiner, left, key, is_global=True)
    node = stream._attach(node_name, lambda: operation)
    node.accepts_null_keys = left
    required = stream._repartition_required
    return _joined(stream, node, node_name, stream._key, stream._sources, required=required)


def _joined(
    stream: KStream, node: ProcessorGraphNode, name: str, key: Any, sources: frozenset[str], *, required: bool
) -> KStream:
    from headrace.dsl.stream import KStream

    return KStream(stream._graph, node, name, key, None, sources, repartition_required=required)


def _check_grace(table: KTable, joined: Joined) -> int:
    assert joined.grace is not None
    grace_ms = to_millis(joined.grace, "Joined grace")
    where = caller_location()
    for spec in table.store_specs():
        if spec.kind is not StoreKind.VERSIONED:
            raise TopologyError(
                f"a stream–table join with grace needs a versioned table, but store {spec.name!r} is not ({where}): "
                "make it with Materialized.versioned(name, history_retention=...)"
            )
        if grace_ms > spec.retention_ms:
            raise TopologyError(
                f"the grace of {grace_ms} ms is longer than the history of {spec.retention_ms} ms that the table "
                f"keeps in {spec.name!r} ({where}): make history_retention at least as long"
            )
    return grace_ms
