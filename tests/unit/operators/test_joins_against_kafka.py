"""Joins and suppress give what Kafka Streams gives: results, their order and time, changelogs, dropped records."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from headrace.dsl.foreign_key_join import response_serde, subscription_serde
from headrace.operators.foreign_key_join import (
    ForeignTableJoinOperator,
    ResponseJoinOperator,
    SubscriptionJoinOperator,
    SubscriptionReceiveOperator,
    SubscriptionSendOperator,
)
from headrace.operators.operator import Forward
from headrace.operators.stream_stream_join import JoinWindowWriteOperator, StreamStreamJoinOperator
from headrace.operators.stream_table_join import StreamTableJoinOperator
from headrace.operators.suppress import SuppressOperator
from headrace.operators.table import TableSourceOperator
from headrace.operators.table_table_join import TableJoinMergeOperator, TableTableJoinOperator
from headrace.operators.window_aggregate import WindowAggregateOperator
from headrace.record import Change, RecordContext
from headrace.serdes import Serde, Serdes
from headrace.topology.operations import (
    ForeignTableJoin,
    JoinWindowWrite,
    ResponseJoin,
    Side,
    StreamStreamJoin,
    StreamTableJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
    Suppress,
    TableJoinKind,
    TableJoinMerge,
    TableSource,
    TableTableJoin,
    WindowAggregate,
)
from headrace.topology.stores import StoreKind, StoreSpec
from headrace.topology.views import StoreView
from headrace.windows import EmitStrategy, JoinWindows, TimeWindows
from tests.unit.operators.join_wiring import Wiring
from tests.unit.operators.kafka_joins import KSTREAM, NEXT, Input, KafkaJoins, Outcome, function, joiner

STRING: Serde[Any] = Serdes.string()
ENDLESS = 2**63 - 1


@pytest.fixture
def kafka(jvm: Any) -> KafkaJoins:
    return KafkaJoins(jvm)


def joined(left: Any, right: Any) -> str:
    return f"{left}+{right}"


def join(key: Any, left: Any, right: Any) -> str:
    return joined(left, right)


def turned(key: Any, right: Any, left: Any) -> str:
    return joined(left, right)


def some_inputs(
    seed: int, topics: Sequence[str], values: Sequence[str | None], *, step: int, late: int, null_keys: bool = True
) -> list[Input]:
    """Records with repeated keys and times, some out of order, some without key or value."""
    chance = random.Random(seed)
    keys = ["a", "b", "ca", "a", "b"] + ([None] if null_keys else [])
    inputs: list[Input] = []
    time = 0
    for _ in range(90):
        time += chance.choice((0, 0, 1, step // 4, step))
        timestamp = max(0, time - chance.choice((0, 0, 0, late // 3, late)))
        inputs.append((chance.choice(topics), chance.choice(keys), chance.choice(values), timestamp))
    # Enough to close every window.
    return [*inputs, (topics[0], "z", values[0], time + 200_000)]


def numbered(inputs: Sequence[Input]) -> list[Input]:
    """The same inputs with values that tell which input they are of."""
    return [(t, k, v if v is None else f"{v}{i}", time) for i, (t, k, v, time) in enumerate(inputs)]


def run(wiring: Wiring, entries: Mapping[str, Forward], inputs: Sequence[Input], stores: Sequence[str]) -> Outcome:
    """The inputs through the operators behind the entries; table updates count with their new value."""
    outcome = Outcome()
    for offset, (topic, key, value, timestamp) in enumerate(inputs):
        entries[topic](key, value, RecordContext(timestamp, topic=topic, partition=0, offset=offset))
        for store in wiring.stores.values():
            store.flush()
        for result_key, result, time in wiring.taken():
            outcome.results.append((result_key, result.new if isinstance(result, Change) else result, time))
        outcome.results.append(NEXT)
    for store in stores:
        outcome.logged[store] = [(k, v, time) for name, k, v, time in wiring.logged if name == store]
    outcome.dropped = len(wiring.dropped)
    return outcome


def agree(ours: Outcome, kafka: Outcome) -> None:
    assert ours.results == kafka.results
    assert ours.logged == kafka.logged
    assert ours.dropped == kafka.dropped


# --- stream–stream -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("windows", [(10, 10, 5), (0, 10, 0), (20, 5, 30), (-5, 20, 3), (40_000, 40_000, 100)], ids=str)
@pytest.mark.parametrize("kind", ["join", "leftJoin", "outerJoin"])
def test_stream_stream(kafka: KafkaJoins, kind: str, windows: tuple[int, int, int], seed: int) -> None:
    before, after, grace = windows
    step = max(abs(before), after)
    inputs = numbered(some_inputs(seed, ("left", "right"), ("v", "v", "v", None), step=step, late=2 * step + grace))

    def build(builder: Any) -> None:
        java = kafka.streams.kstream.JoinWindows.ofTimeDifferenceAndGrace(kafka.millis(100_000), kafka.millis(grace))
        java = java.before(kafka.millis(before)).after(kafka.millis(after))
        stream_joined = getattr(kafka.streams.kstream.StreamJoined, "as")("j").withName("j")
        left = builder.stream("left")
        getattr(left, kind)(builder.stream("right"), joiner(joined), java, stream_joined).to("out")

    left_store = "j-this-join-store" if kind != "outerJoin" else "j-outer-this-join-store"
    right_store = "j-other-join-store" if kind == "join" else "j-outer-other-join-store"
    outer_store = {"join": None, "leftJoin": "j-left-shared-join-store", "outerJoin": "j-outer-shared-join-store"}[kind]
    join_windows = JoinWindows(*(timedelta(milliseconds=millis) for millis in windows))

    def window_spec(name: str) -> StoreSpec:
        return StoreSpec(
            name,
            StoreKind.WINDOW,
            STRING,
            STRING,
            retention_ms=join_windows.size_ms + grace,
            window_size_ms=join_windows.size_ms,
            retain_duplicates=True,
        )

    specs = [window_spec(left_store), window_spec(right_store)]
    if outer_store:
        specs.append(StoreSpec(outer_store, StoreKind.OUTER_JOIN, STRING, STRING, STRING))
    wiring = Wiring(*specs)

    def side(side: Side, own: str, other: str, outer: bool) -> Forward:
        operation = StreamStreamJoin(side, other, outer_store, join_windows, join, outer, "tracker")
        return wiring.wire(JoinWindowWriteOperator(JoinWindowWrite(own)), StreamStreamJoinOperator(operation))

    entries = {
        "left": side(Side.LEFT, left_store, right_store, kind != "join"),
        "right": side(Side.RIGHT, right_store, left_store, kind == "outerJoin"),
    }
    stores = [spec.name for spec in specs]
    agree(run(wiring, entries, inputs, stores), kafka.run(build, inputs, stores))


# --- stream–table ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["join", "leftJoin"])
def test_stream_table(kafka: KafkaJoins, kind: str, seed: int) -> None:
    inputs = numbered(some_inputs(seed, ("stream", "table"), ("v", "v", "v", None), step=10, late=20))

    def build(builder: Any) -> None:
        table = builder.table("table", kafka.materialized("rows"))
        getattr(builder.stream("stream"), kind)(table, joiner(joined)).to("out")

    wiring = Wiring(StoreSpec("rows", StoreKind.TIMESTAMPED_KEY_VALUE, STRING, STRING))
    table = TableSourceOperator(TableSource("rows"))
    wiring.wire(table)
    table.forward = ignore
    entries = {
        "stream": wiring.wire(
            StreamTableJoinOperator(StreamTableJoin(StoreView("rows"), join, left=kind == "leftJoin"))
        ),
        "table": table.process,
    }
    agree(run(wiring, entries, inputs, ["rows"]), kafka.run(build, inputs, ["rows"]))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["join", "leftJoin"])
def test_stream_global_table(kafka: KafkaJoins, kind: str, seed: int) -> None:
    values = ("a", "b", "", None)
    inputs = some_inputs(seed, ("stream", "table"), values, step=10, late=20)

    def table_key(key: Any, value: Any) -> Any:
        return value or None

    def build(builder: Any) -> None:
        table = builder.globalTable("table", kafka.materialized("rows"))
        mapper = function(f"{KSTREAM}.KeyValueMapper", "apply", table_key)
        getattr(builder.stream("stream"), kind)(table, mapper, joiner(joined)).to("out")

    wiring = Wiring(StoreSpec("rows", StoreKind.TIMESTAMPED_KEY_VALUE, STRING, STRING, logging=False))
    table = TableSourceOperator(TableSource("rows"))
    wiring.wire(table)
    table.forward = ignore
    operation = StreamTableJoin(StoreView("rows"), join, left=kind == "leftJoin", key=table_key, is_global=True)
    entries = {"stream": wiring.wire(StreamTableJoinOperator(operation)), "table": table.process}
    ours, theirs = run(wiring, entries, inputs, []), kafka.run(build, inputs)
    assert ours.results == theirs.results


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("grace", [0, 15])
@pytest.mark.parametrize("kind", ["join", "leftJoin"])
def test_stream_table_with_grace(kafka: KafkaJoins, kind: str, grace: int, seed: int) -> None:
    inputs = numbered(
        some_inputs(seed, ("stream", "table"), ("v", "v", "v", None), step=10, late=20, null_keys=kind == "join")
    )
    history = 1_000

    def build(builder: Any) -> None:
        supplier = kafka.streams.state.Stores.persistentVersionedKeyValueStore("rows", kafka.millis(history))
        table = builder.table("table", getattr(kafka.streams.kstream.Materialized, "as")(supplier))
        java = getattr(kafka.streams.kstream.Joined, "as")("j").withGracePeriod(kafka.millis(grace))
        getattr(builder.stream("stream"), kind)(table, joiner(joined), java).to("out")

    wiring = Wiring(
        StoreSpec("rows", StoreKind.VERSIONED, STRING, STRING, retention_ms=history),
        StoreSpec("j-Buffer", StoreKind.STREAM_BUFFER, STRING, STRING, retention_ms=grace),
    )
    table = TableSourceOperator(TableSource("rows"))
    wiring.wire(table)
    table.forward = ignore
    operation = StreamTableJoin(
        StoreView("rows"), join, left=kind == "leftJoin", grace_ms=grace, buffer_store="j-Buffer"
    )
    entries = {"stream": wiring.wire(StreamTableJoinOperator(operation)), "table": table.process}
    ours, theirs = run(wiring, entries, inputs, []), kafka.run(build, inputs)
    assert ours.results == theirs.results
    assert ours.dropped == theirs.dropped


# --- table–table -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("materialized", [True, False])
@pytest.mark.parametrize("kind", ["join", "leftJoin", "outerJoin"])
def test_table_table(kafka: KafkaJoins, kind: str, materialized: bool, seed: int) -> None:
    inputs = numbered(some_inputs(seed, ("left", "right"), ("v", "v", None), step=10, late=20))

    def build(builder: Any) -> None:
        left = builder.table("left", kafka.materialized("lefts"))
        right = builder.table("right", kafka.materialized("rights"))
        store = (kafka.materialized("both"),) if materialized else ()
        getattr(left, kind)(right, joiner(joined), *store).toStream().to("out")

    names = ["lefts", "rights"] + (["both"] if materialized else [])
    wiring = Wiring(*(StoreSpec(name, StoreKind.TIMESTAMPED_KEY_VALUE, STRING, STRING) for name in names))
    merge = TableJoinMergeOperator(TableJoinMerge("both" if materialized else None))
    left_kind, right_kind = {
        "join": (TableJoinKind.INNER, TableJoinKind.INNER),
        "leftJoin": (TableJoinKind.LEFT, TableJoinKind.RIGHT),
        "outerJoin": (TableJoinKind.OUTER, TableJoinKind.OUTER),
    }[kind]
    entries = {
        "left": wiring.wire(
            TableSourceOperator(TableSource("lefts", send_old=kind != "join")),
            TableTableJoinOperator(TableTableJoin(left_kind, StoreView("rights"), join)),
            merge,
        ),
        "right": wiring.wire(
            TableSourceOperator(TableSource("rights", send_old=kind == "outerJoin")),
            TableTableJoinOperator(TableTableJoin(right_kind, StoreView("lefts"), turned)),
            merge,
        ),
    }
    agree(run(wiring, entries, inputs, names), kafka.run(build, inputs, names))


# --- foreign key -------------------------------------------------------------------------------------------------


class Topic:
    """An internal topic: its records wait until the input's own task is done."""

    def __init__(self, queue: deque[Callable[[], None]], serde: Serde[Any]) -> None:
        self._queue = queue
        self._serde = serde
        self.sent: list[tuple[bytes | None, bytes, int]] = []
        self.reader: Forward = ignore

    def send(self, key: Any, value: Any, context: RecordContext) -> None:
        data = self._serde.serialize(value)
        self.sent.append((STRING.serialize(key), data, context.timestamp))
        self._queue.append(lambda: self.reader(key, self._serde.deserialize(data), context))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["join", "leftJoin"])
def test_foreign_key(kafka: KafkaJoins, kind: str, seed: int) -> None:
    values = ("a", "b", "ca", "-", "a", "b", None)
    inputs = [
        (topic, key, value if value is None or topic == "right" else f"{value}:{number // 3}", time)
        for number, (topic, key, value, time) in enumerate(
            some_inputs(seed, ("left", "right"), values, step=10, late=20)
        )
    ]
    left = kind == "leftJoin"

    def foreign_key(value: str) -> str | None:
        name = value.partition(":")[0]
        return None if name == "-" else name

    def build(builder: Any) -> None:
        rows = builder.table("left", kafka.materialized("lefts"))
        foreign_rows = builder.table("right", kafka.materialized("rights"))
        extractor = function("java.util.function.Function", "apply", foreign_key)
        named = getattr(kafka.streams.kstream.TableJoined, "as")("fk")
        getattr(rows, kind)(foreign_rows, extractor, joiner(joined), named, kafka.materialized("both")).toStream().to(
            "out"
        )

    names = ["lefts", "rights", "both"]
    subscriptions = "fk-subscription-store"
    wiring = Wiring(
        *(StoreSpec(name, StoreKind.TIMESTAMPED_KEY_VALUE, STRING, STRING) for name in names),
        StoreSpec(subscriptions, StoreKind.SUBSCRIPTION, Serdes.bytes(), subscription_serde(STRING)),
    )
    queue: deque[Callable[[], None]] = deque()
    registration, response = Topic(queue, subscription_serde(STRING)), Topic(queue, response_serde(STRING))

    def to(topic: Topic, *operators: Any) -> Forward:
        start = wiring.wire(*operators)
        operators[-1].forward = topic.send
        return start

    send = SubscriptionSend(lambda key, value: foreign_key(value), STRING, STRING, left)
    left_entry = to(registration, TableSourceOperator(TableSource("lefts", True)), SubscriptionSendOperator(send))
    registration.reader = to(
        response,
        SubscriptionReceiveOperator(SubscriptionReceive(subscriptions, STRING, STRING)),
        SubscriptionJoinOperator(SubscriptionJoin(StoreView("rights"))),
    )
    right_entry = to(
        response,
        TableSourceOperator(TableSource("rights", True)),
        ForeignTableJoinOperator(ForeignTableJoin(subscriptions, STRING, STRING)),
    )
    response.reader = wiring.wire(
        ResponseJoinOperator(ResponseJoin(StoreView("lefts"), STRING, join, left)),
        TableSourceOperator(TableSource("both")),
    )

    def draining(entry: Forward) -> Forward:
        def process(key: Any, value: Any, context: RecordContext) -> None:
            entry(key, value, context)
            while queue:
                queue.popleft()()

        return process

    entries = {"left": draining(left_entry), "right": draining(right_entry)}
    logs = [*names, subscriptions]
    agree(run(wiring, entries, inputs, logs), kafka.run(build, inputs, logs))


# --- suppress ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("limit", "records", "size"), [(0, ENDLESS, ENDLESS), (25, ENDLESS, ENDLESS), (40, 2, ENDLESS), (40, ENDLESS, 150)]
)
def test_suppress_until_time_limit(kafka: KafkaJoins, limit: int, records: int, size: int, seed: int) -> None:
    inputs = numbered(some_inputs(seed, ("table",), ("v", "v", None), step=10, late=20))

    def build(builder: Any) -> None:
        suppressed = kafka.streams.kstream.Suppressed
        config = suppressed.BufferConfig.maxRecords(records).withMaxBytes(size)
        table = builder.table("table", kafka.materialized("rows"))
        table.suppress(suppressed.untilTimeLimit(kafka.millis(limit), config)).toStream().to("out")

    wiring = Wiring(
        StoreSpec("rows", StoreKind.TIMESTAMPED_KEY_VALUE, STRING, STRING),
        StoreSpec("buffer", StoreKind.SUPPRESS_BUFFER, STRING, STRING),
    )
    suppress = Suppress("buffer", limit, False, records, size, emit_early=True, safe_to_drop_tombstones=False)
    entries = {"table": wiring.wire(TableSourceOperator(TableSource("rows", True)), SuppressOperator(suppress))}
    agree(run(wiring, entries, inputs, []), kafka.run(build, inputs))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("grace", [0, 15])
def test_suppress_until_window_closes(kafka: KafkaJoins, grace: int, seed: int) -> None:
    inputs = some_inputs(seed, ("stream",), ("v", "w"), step=10, late=20)

    def text(windowed: Any, value: Any) -> str:
        return f"{windowed.key()}@{windowed.window().start()}"

    def build(builder: Any) -> None:
        windows = kafka.streams.kstream.TimeWindows.ofSizeAndGrace(kafka.millis(20), kafka.millis(grace))
        suppressed = kafka.streams.kstream.Suppressed
        reduced = (
            builder.stream("stream")
            .groupByKey()
            .windowedBy(windows)
            .reduce(function(f"{KSTREAM}.Reducer", "apply", lambda a, b: a + b), kafka.materialized("sums"))
        )
        final = reduced.suppress(suppressed.untilWindowCloses(suppressed.BufferConfig.unbounded()))
        final.toStream(function(f"{KSTREAM}.KeyValueMapper", "apply", text)).to("out")

    windows = TimeWindows(timedelta(milliseconds=20), timedelta(milliseconds=grace))
    wiring = Wiring(
        StoreSpec("sums", StoreKind.TIMESTAMPED_WINDOW, STRING, STRING, retention_ms=20 + grace, window_size_ms=20),
        StoreSpec("buffer", StoreKind.SUPPRESS_BUFFER, Serdes.windowed(STRING, timedelta(milliseconds=20)), STRING),
    )
    sums = WindowAggregate(
        "sums", windows, lambda: None, lambda k, v, a: v if a is None else a + v, EmitStrategy.ON_WINDOW_UPDATE, True
    )
    suppress = Suppress("buffer", grace, True, ENDLESS, ENDLESS, emit_early=False, safe_to_drop_tombstones=True)
    entries = {"stream": wiring.wire(WindowAggregateOperator(sums), SuppressOperator(suppress))}
    ours, theirs = run(wiring, entries, inputs, []), kafka.run(build, inputs)
    ours.results = [r if r is NEXT else (f"{r[0].key}@{r[0].window.start}", r[1], r[2]) for r in ours.results]
    assert ours.results == theirs.results


def ignore(key: Any, value: Any, context: RecordContext) -> None:
    """Nothing comes after."""
