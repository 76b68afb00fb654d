"""The DSL's handles over Kafka Streams: the same names, the same arguments, real operators behind them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from py4j.java_gateway import JavaGateway, JavaObject

from headrace.dsl.options import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Produced,
    Repartitioned,
    StreamJoined,
    TableJoined,
)
from headrace.dsl.suppressed import Suppressed
from headrace.topology.stores import StoreSpec
from headrace.windows import EmitStrategy, JoinWindows, SessionWindows
from tests.oracle.boxes import Boxes
from tests.oracle.functions import Functions, java_function
from tests.oracle.java_options import Options
from tests.oracle.java_processors import fixed_key_processor_supplier, processor_supplier, transformer_supplier

Function = Callable[..., Any]
Store = Materialized | str | None


class Bridge:
    """What every handle of one topology shares."""

    def __init__(self, gateway: JavaGateway) -> None:
        self.boxes = Boxes(gateway)
        self.functions = Functions(self.boxes)
        self.options = Options(self.boxes)
        self._printed: JavaObject | None = None

    def redirect_print(self) -> None:
        """Lets `print` write into memory; once is enough, so that the lines keep their order."""
        if self._printed is None:
            jvm = self.boxes.jvm
            self._printed = jvm.java.io.ByteArrayOutputStream()
            jvm.java.lang.System.setOut(jvm.java.io.PrintStream(self._printed, True))

    def printed(self) -> list[str]:
        """The lines that were printed."""
        return [] if self._printed is None else self._printed.toString().splitlines()


class Handle:
    """A Java object of the DSL, and how to call it."""

    def __init__(self, java: JavaObject, bridge: Bridge) -> None:
        self.java = java
        self._bridge = bridge
        self._f = bridge.functions
        self._o = bridge.options

    def _call(self, method: str, *arguments: Any, name: str | None = None, store: Store = None) -> JavaObject:
        """Calls an operator that takes, after its own arguments, a name and a store."""
        materialized = self._o.materialized(store)
        if name is not None:
            arguments += (self._o.named(name),)
        if materialized is not None:
            arguments += (materialized,)
        return getattr(self.java, method)(*arguments)

    def _grouped(self, method: str, grouped: Grouped | None, name: str | None, *arguments: Any) -> JavaObject:
        java_grouped = self._o.grouped(grouped, name)
        if java_grouped is not None:
            arguments += (java_grouped,)
        return getattr(self.java, method)(*arguments)


class StreamsBuilder:
    """Builds a topology of Kafka Streams."""

    def __init__(self, gateway: JavaGateway) -> None:
        self.bridge = Bridge(gateway)
        self._java = self.bridge.boxes.streams.StreamsBuilder()

    def stream(
        self, topics: str | Sequence[str] | re.Pattern[str], consumed: Consumed | None = None, name: str | None = None
    ) -> KStream:
        java_topics: Any = topics
        if isinstance(topics, re.Pattern):
            java_topics = self.bridge.boxes.jvm.java.util.regex.Pattern.compile(topics.pattern)
        elif not isinstance(topics, str):
            java_topics = self.bridge.boxes.box_list(topics)
        return KStream(self._java.stream(java_topics, self.bridge.options.consumed(consumed, name)), self.bridge)

    def table(
        self, topic: str, consumed: Consumed | None = None, materialized: Store = None, name: str | None = None
    ) -> KTable:
        return KTable(self._table(self._java.table, topic, consumed, materialized, name), self.bridge)

    def global_table(
        self, topic: str, consumed: Consumed | None = None, materialized: Store = None, name: str | None = None
    ) -> GlobalKTable:
        return GlobalKTable(self._table(self._java.globalTable, topic, consumed, materialized, name), self.bridge)

    def _table(self, method: Function, topic: str, consumed: Consumed | None, store: Store, name: str | None) -> Any:
        java_consumed = self.bridge.options.consumed(consumed, name)
        materialized = self.bridge.options.materialized(store)
        return method(topic, java_consumed) if materialized is None else method(topic, java_consumed, materialized)

    def add_state_store(self, store: StoreSpec) -> StreamsBuilder:
        self._java.addStateStore(self.bridge.options.store_builder(store))
        return self

    def build(self) -> JavaObject:
        return self._java.build()


class KStream(Handle):
    """A stream of records."""

    def _stream(self, java: JavaObject) -> KStream:
        return KStream(java, self._bridge)

    def filter(self, predicate: Function, name: str | None = None) -> KStream:
        return self._stream(self._call("filter", self._f.predicate(predicate), name=name))

    def filter_not(self, predicate: Function, name: str | None = None) -> KStream:
        return self._stream(self._call("filterNot", self._f.predicate(predicate), name=name))

    def map(self, mapper: Function, name: str | None = None) -> KStream:
        return self._stream(self._call("map", self._f.pair_mapper(mapper), name=name))

    def map_values(self, mapper: Function, name: str | None = None) -> KStream:
        return self._stream(self._call("mapValues", self._f.value_mapper(mapper), name=name))

    def flat_map(self, mapper: Function, name: str | None = None) -> KStream:
        return self._stream(self._call("flatMap", self._f.pairs_mapper(mapper), name=name))

    def flat_map_values(self, mapper: Function, name: str | None = None) -> KStream:
        return self._stream(self._call("flatMapValues", self._f.values_mapper(mapper), name=name))

    def select_key(self, mapper: Function, name: str | None = None) -> KStream:
        return self._stream(self._call("selectKey", self._f.key_mapper(mapper), name=name))

    def merge(self, other: KStream, name: str | None = None) -> KStream:
        return self._stream(self._call("merge", other.java, name=name))

    def peek(self, action: Function, name: str | None = None) -> KStream:
        return self._stream(self._call("peek", self._f.action(action), name=name))

    def foreach(self, action: Function, name: str | None = None) -> None:
        self._call("foreach", self._f.action(action), name=name)

    def print(self, label: str | None = None, name: str | None = None) -> None:
        self._bridge.redirect_print()
        printed = self._bridge.boxes.streams.kstream.Printed.toSysOut()
        if label is not None:
            printed = printed.withLabel(label)
        self.java.print(printed if name is None else printed.withName(name))

    def split(self, name: str | None = None) -> BranchedKStream:
        return BranchedKStream(self._call("split", name=name), self._bridge)

    def repartition(self, repartitioned: Repartitioned | None = None, name: str | None = None) -> KStream:
        return self._stream(self.java.repartition(self._o.repartitioned(repartitioned, name)))

    def to(self, topic: str | Function, produced: Produced | None = None, name: str | None = None) -> None:
        self.java.to(
            topic if isinstance(topic, str) else self._f.topic_extractor(topic), self._o.produced(produced, name)
        )

    def to_table(self, materialized: Store = None, name: str | None = None) -> KTable:
        return KTable(self._call("toTable", name=name, store=materialized), self._bridge)

    def group_by_key(self, grouped: Grouped | None = None, name: str | None = None) -> KGroupedStream:
        return KGroupedStream(self._grouped("groupByKey", grouped, name), self._bridge)

    def group_by(self, mapper: Function, grouped: Grouped | None = None, name: str | None = None) -> KGroupedStream:
        return KGroupedStream(self._grouped("groupBy", grouped, name, self._f.key_mapper(mapper)), self._bridge)

    def join(
        self,
        other: KStream | KTable | GlobalKTable,
        joiner: Function,
        windows: JoinWindows | None = None,
        joined: StreamJoined | Joined | None = None,
        key: Function | None = None,
        name: str | None = None,
    ) -> KStream:
        return self._join("join", other, joiner, windows, joined, key, name)

    def left_join(
        self,
        other: KStream | KTable | GlobalKTable,
        joiner: Function,
        windows: JoinWindows | None = None,
        joined: StreamJoined | Joined | None = None,
        key: Function | None = None,
        name: str | None = None,
    ) -> KStream:
        return self._join("leftJoin", other, joiner, windows, joined, key, name)

    def outer_join(
        self,
        other: KStream,
        joiner: Function,
        windows: JoinWindows | None = None,
        joined: StreamJoined | None = None,
        name: str | None = None,
    ) -> KStream:
        return self._join("outerJoin", other, joiner, windows, joined, None, name)

    def _join(
        self, method: str, other: Any, joiner: Function, windows: Any, joined: Any, key: Any, name: str | None
    ) -> KStream:
        java_joiner = self._f.joiner(joiner)
        if isinstance(other, GlobalKTable):
            return self._stream(self._call(method, other.java, self._f.key_mapper(key), java_joiner, name=name))
        call = getattr(self.java, method)
        if isinstance(other, KTable):
            return self._stream(call(other.java, java_joiner, self._o.joined(joined, name)))
        java_joined = self._o.stream_joined(joined, name)
        return self._stream(call(other.java, java_joiner, self._o.windows(windows), java_joined))

    def process(self, supplier: Function, stores: Sequence[str] = (), name: str | None = None) -> KStream:
        return self._process("process", processor_supplier(supplier, self._bridge.boxes), stores, name)

    def process_values(self, supplier: Function, stores: Sequence[str] = (), name: str | None = None) -> KStream:
        return self._process("processValues", fixed_key_processor_supplier(supplier, self._bridge.boxes), stores, name)

    def _process(self, method: str, supplier: Any, stores: Sequence[str], name: str | None) -> KStream:
        arguments = [supplier] if name is None else [supplier, self._o.named(name)]
        return self._stream(getattr(self.java, method)(*arguments, self._bridge.boxes.strings(stores)))


class BranchedKStream(Handle):
    """A stream that is being split."""

    def branch(self, predicate: Function, branched: Branched | str | None = None) -> BranchedKStream:
        java = self.java.branch(self._f.predicate(predicate), *self._branched(branched))
        return BranchedKStream(java, self._bridge)

    def default_branch(self, branched: Branched | str | None = None) -> dict[str, KStream]:
        return self._branches(self.java.defaultBranch(*self._branched(branched)))

    def no_default_branch(self) -> dict[str, KStream]:
        return self._branches(self.java.noDefaultBranch())

    def _branched(self, branched: Branched | str | None) -> tuple[JavaObject, ...]:
        if branched is None or isinstance(branched, str):
            branched = Branched(branched)
        kind = self._bridge.boxes.streams.kstream.Branched
        name = () if branched.name is None else (branched.name,)
        if branched.function is None:
            return (getattr(kind, "as")(*name),) if name else ()
        function: Function = branched.function

        def chain(java: JavaObject) -> JavaObject | None:
            result = function(KStream(java, self._bridge))
            return None if result is None else result.java

        return (kind.withFunction(java_function("java.util.function.Function", "apply", chain), *name),)

    def _branches(self, java: JavaObject) -> dict[str, KStream]:
        return {name: KStream(java.get(name), self._bridge) for name in list(java.keySet().toArray())}


class _Windowable(Handle):
    def _windowed(self, windows: Any) -> JavaObject:
        return self.java.windowedBy(self._o.windows(windows))


class KGroupedStream(_Windowable):
    """A stream grouped by key."""

    def count(self, materialized: Store = None, name: str | None = None) -> KTable:
        return KTable(self._call("count", name=name, store=materialized), self._bridge)

    def reduce(self, reducer: Function, materialized: Store = None, name: str | None = None) -> KTable:
        store = materialized if materialized is not None or name is None else Materialized()
        return KTable(self._call("reduce", self._f.reducer(reducer), name=name, store=store), self._bridge)

    def aggregate(
        self, init: Function, aggregator: Function, materialized: Store = None, name: str | None = None
    ) -> KTable:
        store = materialized if materialized is not None or name is None else Materialized()
        functions = (self._f.initializer(init), self._f.aggregator(aggregator))
        return KTable(self._call("aggregate", *functions, name=name, store=store), self._bridge)

    def windowed_by(self, windows: Any) -> WindowedKStream:
        kind = SessionWindowedKStream if isinstance(windows, SessionWindows) else TimeWindowedKStream
        return kind(self._windowed(windows), self._bridge)

    def cogroup(self, aggregator: Function) -> CogroupedKStream:
        return CogroupedKStream(self.java.cogroup(self._f.aggregator(aggregator)), self._bridge)


class WindowedKStream(Handle):
    """A grouped stream in windows."""

    def emit_strategy(self, strategy: EmitStrategy) -> WindowedKStream:
        return type(self)(self.java.emitStrategy(self._o.emit_strategy(strategy)), self._bridge)

    def count(self, materialized: Store = None, name: str | None = None) -> KTable:
        return KTable(self._call("count", name=name, store=materialized), self._bridge)

    def reduce(self, reducer: Function, materialized: Store = None, name: str | None = None) -> KTable:
        return KTable(self._call("reduce", self._f.reducer(reducer), name=name, store=materialized), self._bridge)


class TimeWindowedKStream(WindowedKStream):
    """A grouped stream in time windows or sliding windows."""

    def aggregate(
        self, init: Function, aggregator: Function, materialized: Store = None, name: str | None = None
    ) -> KTable:
        functions = (self._f.initializer(init), self._f.aggregator(aggregator))
        return KTable(self._call("aggregate", *functions, name=name, store=materialized), self._bridge)


class SessionWindowedKStream(WindowedKStream):
    """A grouped stream in sessions."""

    def aggregate(
        self,
        init: Function,
        aggregator: Function,
        merger: Function,
        materialized: Store = None,
        name: str | None = None,
    ) -> KTable:
        functions = (self._f.initializer(init), self._f.aggregator(aggregator), self._f.merger(merger))
        return KTable(self._call("aggregate", *functions, name=name, store=materialized), self._bridge)


class CogroupedKStream(_Windowable):
    """Several grouped streams on their way into one table."""

    def cogroup(self, grouped: KGroupedStream, aggregator: Function) -> CogroupedKStream:
        return CogroupedKStream(self.java.cogroup(grouped.java, self._f.aggregator(aggregator)), self._bridge)

    def aggregate(self, init: Function, materialized: Store = None, name: str | None = None) -> KTable:
        return KTable(self._call("aggregate", self._f.initializer(init), name=name, store=materialized), self._bridge)

    def windowed_by(self, windows: Any) -> TimeWindowedCogroupedKStream | SessionWindowedCogroupedKStream:
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(self._windowed(windows), self._bridge)
        return TimeWindowedCogroupedKStream(self._windowed(windows), self._bridge)


class TimeWindowedCogroupedKStream(Handle):
    """Several grouped streams in time windows or sliding windows."""

    def aggregate(self, init: Function, materialized: Store = None, name: str | None = None) -> KTable:
        return KTable(self._call("aggregate", self._f.initializer(init), name=name, store=materialized), self._bridge)


class SessionWindowedCogroupedKStream(Handle):
    """Several grouped streams in sessions."""

    def aggregate(
        self, init: Function, merger: Function, materialized: Store = None, name: str | None = None
    ) -> KTable:
        functions = (self._f.initializer(init), self._f.merger(merger))
        return KTable(self._call("aggregate", *functions, name=name, store=materialized), self._bridge)


class GlobalKTable(Handle):
    """A table that every task has as a whole."""

    @property
    def queryable_store_name(self) -> str | None:
        return self.java.queryableStoreName()


class KTable(Handle):
    """A table."""

    def _table(self, java: JavaObject) -> KTable:
        return KTable(java, self._bridge)

    @property
    def queryable_store_name(self) -> str | None:
        return self.java.queryableStoreName()

    def filter(self, predicate: Function, materialized: Store = None, name: str | None = None) -> KTable:
        return self._table(self._call("filter", self._f.predicate(predicate), name=name, store=materialized))

    def filter_not(self, predicate: Function, materialized: Store = None, name: str | None = None) -> KTable:
        return self._table(self._call("filterNot", self._f.predicate(predicate), name=name, store=materialized))

    def map_values(self, mapper: Function, materialized: Store = None, name: str | None = None) -> KTable:
        return self._table(self._call("mapValues", self._f.value_mapper(mapper), name=name, store=materialized))

    def transform_values(
        self, supplier: Function, materialized: Store = None, stores: Sequence[str] = (), name: str | None = None
    ) -> KTable:
        arguments = [transformer_supplier(supplier, self._bridge.boxes)]
        if materialized is not None:
            arguments.append(self._o.materialized(materialized))
        if name is not None:
            arguments.append(self._o.named(name))
        return self._table(self.java.transformValues(*arguments, self._bridge.boxes.strings(stores)))

    def to_stream(self, key_mapper: Function | None = None, name: str | None = None) -> KStream:
        arguments = () if key_mapper is None else (self._f.key_mapper(key_mapper),)
        return KStream(self._call("toStream", *arguments, name=name), self._bridge)

    def suppress(self, suppressed: Suppressed, name: str | None = None) -> KTable:
        return self._table(self.java.suppress(self._o.suppressed(suppressed, name)))

    def group_by(self, mapper: Function, grouped: Grouped | None = None, name: str | None = None) -> KGroupedTable:
        return KGroupedTable(self._grouped("groupBy", grouped, name, self._f.pair_mapper(mapper)), self._bridge)

    def join(
        self,
        other: KTable,
        joiner: Function,
        materialized: Store = None,
        foreign_key: Function | None = None,
        name: str | None = None,
        joined: TableJoined | None = None,
    ) -> KTable:
        return self._join("join", other, joiner, materialized, foreign_key, name, joined)

    def left_join(
        self,
        other: KTable,
        joiner: Function,
        materialized: Store = None,
        foreign_key: Function | None = None,
        name: str | None = None,
        joined: TableJoined | None = None,
    ) -> KTable:
        return self._join("leftJoin", other, joiner, materialized, foreign_key, name, joined)

    def outer_join(
        self, other: KTable, joiner: Function, materialized: Store = None, name: str | None = None
    ) -> KTable:
        return self._join("outerJoin", other, joiner, materialized, None, name, None)

    def _join(
        self,
        method: str,
        other: KTable,
        joiner: Function,
        store: Store,
        foreign_key: Function | None,
        name: str | None,
        joined: TableJoined | None,
    ) -> KTable:
        java_joiner = self._f.joiner(joiner)
        if foreign_key is None:
            return self._table(self._call(method, other.java, java_joiner, name=name, store=store))
        arguments = [other.java, self._f.foreign_key(foreign_key), java_joiner]
        table_joined = self._o.table_joined(joined, name)
        if table_joined is not None:
            arguments.append(table_joined)
        return self._table(self._call(method, *arguments, store=store))


class KGroupedTable(Handle):
    """A table grouped by another key."""

    def count(self, materialized: Store = None, name: str | None = None) -> KTable:
        return KTable(self._call("count", name=name, store=materialized), self._bridge)

    def reduce(
        self, adder: Function, subtractor: Function, materialized: Store = None, name: str | None = None
    ) -> KTable:
        store = materialized if materialized is not None or name is None else Materialized()
        functions = (self._f.reducer(adder), self._f.reducer(subtractor))
        return KTable(self._call("reduce", *functions, name=name, store=store), self._bridge)

    def aggregate(
        self,
        init: Function,
        adder: Function,
        subtractor: Function,
        materialized: Store = None,
        name: str | None = None,
    ) -> KTable:
        functions = (self._f.initializer(init), self._f.aggregator(adder), self._f.aggregator(subtractor))
        return KTable(self._call("aggregate", *functions, name=name, store=materialized), self._bridge)
