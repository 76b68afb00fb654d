"""Foreign-key joins: the left table subscribes to rows of the right one through two internal topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.dsl.graph import GraphNode, ProcessorGraphNode, SinkGraphNode, SourceGraphNode
from headrace.dsl.materialize import key_value_store, name_store
from headrace.dsl.options import Consumed, Materialized, TableJoined
from headrace.dsl.table_logic import SourceTable
from headrace.serdes import Serde, Serdes
from headrace.serdes.forms.foreign_key import (
    Response,
    Subscription,
    pack_response,
    pack_subscription,
    unpack_response,
    unpack_subscription,
)
from headrace.topology.location import caller_location
from headrace.topology.nodes import SinkNode
from headrace.topology.operations import (
    ForeignTableJoin,
    Operation,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from headrace.topology.serde_refs import derived
from headrace.topology.stores import StoreKind, StoreSpec

if TYPE_CHECKING:
    from headrace.dsl.table import KTable

Function = Callable[..., Any]

_PREFIX = "KTABLE-FK-JOIN-"
_REGISTRATION = _PREFIX + "SUBSCRIPTION-REGISTRATION-"
_PROCESSOR = _PREFIX + "SUBSCRIPTION-PROCESSOR-"
_SINK = "KTABLE-SINK-"
_SOURCE = "KTABLE-SOURCE-"


def join_by_foreign_key(
    this: KTable,
    other: KTable,
    foreign_key: Function,
    joiner: Function,
    materialized: Materialized | None,
    joined: TableJoined,
    name: str | None,
    *,
    left: bool,
) -> KTable:
    """Joins each row of this table with the row of the other that `foreign_key(k, v)` names."""
    from headrace.dsl.table import KTable

    other.enable_sending_old_values(True)
    this.enable_sending_old_values(True)
    graph, given = this._graph, name or joined.name

    def node_name(suffix: str, prefix: str) -> str:
        return graph.names.suffixed_or(given, suffix, prefix)

    subscriptions = node_name("-subscription-registration", _REGISTRATION) + "-topic"
    graph.add_internal_topic(subscriptions)
    subscription = derived(subscription_serde, (this._key, "key"))
    response = derived(response_serde, (other._value, "value"))

    send = _versioned_node(
        node_name("-subscription-registration-processor", _REGISTRATION),
        lambda versioned: SubscriptionSend(foreign_key, other._key, this._value, left, versioned),
    )
    graph.add(send, this._node)
    sink = _sink(
        node_name("-subscription-registration-sink", _SINK),
        subscriptions,
        other._key,
        subscription,
        None if joined.other_partitioner is None else _by_key(joined.other_partitioner),
    )
    graph.add(sink, send)
    source = _source(node_name("-subscription-registration-source", _SOURCE), subscriptions, other._key, subscription)
    graph.add(source, sink)
    graph.copartition(other._sources | {source.name})

    store = StoreSpec(
        node_name("-subscription-store", _PREFIX + "SUBSCRIPTION-STATE-STORE-"),
        StoreKind.SUBSCRIPTION,
        Serdes.bytes(),
        subscription,
        logs_headers=True,
    )
    receive_operation = SubscriptionReceive(store.name, other._key, this._key)
    receive = _node(node_name("-subscription-receive", _PROCESSOR), receive_operation, stores=(store,))
    graph.add(receive, source)
    foreign_view = other.view()
    answer = _node(
        node_name("-subscription-join-foreign", _PROCESSOR),
        SubscriptionJoin(foreign_view),
        connect=foreign_view.stores,
    )
    graph.add(answer, receive)
    foreign_join = _versioned_node(
        node_name("-foreign-join-subscription", _PROCESSOR),
        lambda versioned: ForeignTableJoin(store.name, other._key, this._key, versioned),
        stores=(store,),
    )
    graph.add(foreign_join, other._node)

    responses = node_name("-subscription-response", _PREFIX + "SUBSCRIPTION-RESPONSE-") + "-topic"
    graph.add_internal_topic(responses)
    partitioner = _to_primary_partition if joined.partitioner is None else _by_key(joined.partitioner)
    response_sink = _sink(node_name("-subscription-response-sink", _SINK), responses, this._key, response, partitioner)
    graph.add(response_sink, answer, foreign_join)
    response_source = _source(node_name("-subscription-response-source", _SOURCE), responses, this._key, response)
    graph.add(response_source, response_sink)
    sources = this._sources | {response_source.name}
    graph.copartition(sources)

    primary_view = this.view()
    resolver = _node(
        node_name("-subscription-response-resolver", _PREFIX + "SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"),
        ResponseJoin(primary_view, this._value, joiner, left),
        connect=primary_view.stores,
    )
    graph.add(resolver, response_source)
    result_name = node_name("-result", _PREFIX + "OUTPUT-")
    options = name_store(materialized or Materialized(), graph.names, _PREFIX + "OUTPUT-").with_serdes(this._key, None)
    logic = SourceTable(key_value_store(options), materialized=options.queryable)
    result = ProcessorGraphNode(result_name, logic.operation, caller_location(), stores=logic.stores)
    result.output_versioned = options.is_versioned
    graph.add(result, resolver)
    return KTable(graph, result, result_name, this._key, options.value, sources, logic=logic)


def subscription_serde(primary_key: Serde[Any]) -> Serde[Any]:
    """The serde of subscriptions."""

    # The functions hold the serde, not its functions: a serde can be sent to another process, they need not.
    def pack(subscription: Subscription) -> bytes:
        hash, instruction, key, partition, _ = subscription
        return pack_subscription(hash, instruction, primary_key.serialize(key), 0 if partition is None else partition)

    def unpack(data: bytes) -> Subscription:
        subscription = unpack_subscription(data)
        return subscription._replace(primary_key=primary_key.deserialize(subscription.primary_key))

    return Serde(pack, unpack, f"subscriptions of {primary_key.name}")


def response_serde(value: Serde[Any]) -> Serde[Any]:
    """The serde of the answers to subscriptions."""

    def pack(answer: Any) -> bytes:
        return pack_response(answer.hash, value.serialize(answer.value))

    def unpack(data: bytes) -> Response:
        response = unpack_response(data)
        return response._replace(value=value.deserialize(response.value))

    return Serde(pack, unpack, f"responses of {value.name}")


def _to_primary_partition(topic: str, key: Any, answer: Any, partitions: int) -> int | None:
    partition: int | None = answer.primary_partition
    return partition


def _by_key(partitioner: Function) -> Function:
    return lambda topic, key, value, partitions: partitioner(topic, key, None, partitions)


def _sink(name: str, topic: str, key: Any, value: Any, partitioner: Function | None) -> SinkGraphNode:
    return SinkGraphNode(SinkNode(name, (), topic, key, value, partitioner, caller_location()))


def _source(name: str, topic: str, key: Any, value: Any) -> GraphNode:
    return _InternalSource(name, (topic,), None, Consumed(), caller_location(), key=key, value=value)


class _InternalSource(SourceGraphNode):
    """The source of an internal topic: it stands below the sink in the graph, though not in the topology."""


def _node(
    name: str, operation: Operation, stores: tuple[StoreSpec, ...] = (), connect: tuple[str, ...] = ()
) -> ProcessorGraphNode:
    return ProcessorGraphNode(name, lambda: operation, caller_location(), stores=lambda: stores, connect=connect)


def _versioned_node(
    name: str, operation: Callable[[bool], Operation], stores: tuple[StoreSpec, ...] = ()
) -> ProcessorGraphNode:
    """A node that is told whether its table is versioned."""
    versioned: list[bool] = []
    return ProcessorGraphNode(
        name,
        lambda: operation(bool(versioned)),
        caller_location(),
        stores=lambda: stores,
        on_versioned=lambda: versioned.append(True),
    )
