"""KGroupedTable: a table grouped by another key, aggregated by adding new and subtracting old values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.dsl.graph import ProcessorGraphNode, RepartitionGraphNode
from headrace.dsl.grouped import count_one, zero
from headrace.dsl.handle import Handle
from headrace.dsl.materialize import MaterializedOrName, StoreOptions, as_materialized, key_value_store, name_store
from headrace.dsl.options import Materialized
from headrace.dsl.repartition import SUFFIX
from headrace.dsl.table_logic import AggregatedTable, Aggregation
from headrace.record import Change
from headrace.serdes import Serde, Serdes
from headrace.serdes.forms.change import pack_change, unpack_change
from headrace.topology.functions import check_arity
from headrace.topology.location import caller_location
from headrace.topology.operations import TableAggregate, TableReduce
from headrace.topology.serde_refs import derived

if TYPE_CHECKING:
    from headrace.dsl.table import KTable

Function = Callable[..., Any]

AGGREGATE = "KTABLE-AGGREGATE-"
REDUCE = "KTABLE-REDUCE-"


def count_one_less(key: Any, value: Any, total: int) -> int:
    """One less."""
    return total - 1


class KGroupedTable(Handle):
    """A table grouped by another key."""

    def __init__(self, *args: Any, repartition_name: str | None) -> None:
        super().__init__(*args)
        self._repartition_name = repartition_name
        self._repartition: RepartitionGraphNode | None = None

    def count(self, materialized: MaterializedOrName | None = None, name: str | None = None) -> KTable:
        """The number of rows of each key."""
        store = self._named_store(materialized).with_serdes(self._key, Serdes.long())
        operation = TableAggregate(store.name, zero, count_one, count_one_less)
        return self._aggregated(AGGREGATE, name, store, operation)

    def reduce(
        self,
        adder: Function,
        subtractor: Function,
        materialized: MaterializedOrName | None = None,
        name: str | None = None,
    ) -> KTable:
        """The values of each key, new ones added by `adder(agg, v)`, old ones taken out by `subtractor(agg, v)`."""
        for what, function in (("adder", adder), ("subtractor", subtractor)):
            check_arity(function, f"reduce {what}", caller_location(), "agg, v")
        store = self._named_store(materialized).with_serdes(self._key, self._value)
        return self._aggregated(REDUCE, name, store, TableReduce(store.name, adder, subtractor))

    def aggregate(
        self,
        initializer: Function,
        adder: Function,
        subtractor: Function,
        materialized: MaterializedOrName | None = None,
        name: str | None = None,
    ) -> KTable:
        """The values of each key from `initializer()` on, with `adder(k, v, agg)` and `subtractor(k, v, agg)`."""
        check_arity(initializer, "aggregate initializer", caller_location(), "")
        for what, function in (("adder", adder), ("subtractor", subtractor)):
            check_arity(function, f"aggregate {what}", caller_location(), "k, v, agg")
        store = self._named_store(materialized).with_serdes(self._key, None)
        operation = TableAggregate(store.name, initializer, adder, subtractor)
        return self._aggregated(AGGREGATE, name, store, operation)

    def _named_store(self, materialized: MaterializedOrName | None) -> StoreOptions:
        return name_store(as_materialized(materialized) or Materialized(), self._graph.names, AGGREGATE)

    def _aggregated(self, prefix: str, name: str | None, store: StoreOptions, operation: Aggregation) -> KTable:
        from headrace.dsl.table import KTable

        names = self._graph.names
        sink = names.suffixed_or(name, "-sink", "KSTREAM-SINK-")
        source = names.suffixed_or(name, "-source", "KSTREAM-SOURCE-")
        node_name = names.given_or(name, prefix)
        if self._repartition is None or self._repartition_name is None:
            topic = (self._repartition_name or store.name) + SUFFIX
            changes = derived(change_serde, (self._value, "value"))
            self._repartition = RepartitionGraphNode(topic, (None, sink, source), self._key, changes, caller_location())
        self._graph.add(self._repartition, self._node)
        logic = AggregatedTable(operation, key_value_store(store))
        node = ProcessorGraphNode(node_name, logic.operation, caller_location(), stores=logic.stores)
        node.output_versioned = store.is_versioned
        self._graph.add(node, self._repartition)
        return KTable(
            self._graph,
            node,
            node_name,
            store.key,
            store.value,
            frozenset({source}),
            logic=logic,
            queryable=store.queryable,
        )


def change_serde(inner: Serde[Any]) -> Serde[Any]:
    """The serde of table updates in a repartition topic: old and new value in one record."""

    # The functions hold the serde, not its functions: a serde can be sent to another process, they need not.
    def pack(change: Change) -> bytes:
        return pack_change(inner.serialize(change.new), inner.serialize(change.old))

    def unpack(data: bytes) -> Change:
        new, old, is_latest = unpack_change(data)
        return Change(inner.deserialize(new), inner.deserialize(old), is_latest)

    return Serde(pack, unpack, f"changes of {inner.name}")
