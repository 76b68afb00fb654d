from __future__ import annotations

import re
from typing import Any

import pytest

from headrace import (
    Consumed,
    Grouped,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    Topology,
    ValueAndTimestamp,
)
from headrace.errors import StoreError
from headrace.operators.compiler import OPERATORS
from headrace.record import NO_HEADERS
from headrace.state.memory import MemoryStore
from headrace.task.task import Task
from headrace.timestamps import WallclockTimestampExtractor
from headrace.topology import operations
from headrace.topology.operations import Operation

STRING = Serdes.string()


def repartitioned_count() -> Topology:
    b = StreamsBuilder()
    stream = b.stream("in", Consumed(key=STRING, value=STRING))
    counts = stream.group_by(lambda k, v: v, Grouped(key=STRING, value=STRING, name="by-value")).count("n")
    counts.to_stream().to("out", Produced(key=STRING, value=Serdes.long()))
    return b.build()


class Running:
    """A task with its outputs and a clock that stands still."""

    def __init__(self, topology: Topology, number: int | None = None, queue_per_topic: bool = False) -> None:
        self.sent: list[tuple[Any, ...]] = []
        nodes = None if number is None else topology.subtopologies()[number].nodes
        self.task = Task(
            topology,
            StreamsConfig(),
            application_id="app",
            ordered=lambda spec: MemoryStore(),
            send=lambda *record: self.sent.append(record),
            clock=lambda: 99,
            task_id=f"{number or 0}_3",
            partition=3,
            nodes=nodes,
            queue_per_topic=queue_per_topic,
        )

    def pipe(self, topic: str, key: str, value: str, timestamp: int) -> None:
        queue = self.task.queue_of(topic)
        assert queue is not None
        self.task.add(queue, (topic, 3, 0, timestamp, key.encode(), value.encode(), NO_HEADERS))
        while self.task.process_one():
            pass


def test_every_operation_has_its_operator() -> None:
    known = {
        kind
        for kind in vars(operations).values()
        if isinstance(kind, type) and issubclass(kind, Operation) and kind is not Operation
    }
    assert set(OPERATORS) == known
    for operation, operator in OPERATORS.items():
        assert operator.__name__ == f"{operation.__name__}Operator"


def test_a_task_runs_one_subtopology_on_one_partition() -> None:
    topology = repartitioned_count()
    first, second = Running(topology, 0), Running(topology, 1)
    first.pipe("in", "k", "v", 5)
    assert first.sent == [("app-by-value-repartition", b"v", b"v", 5, (), None)]
    assert first.task.specs == {}
    assert second.task.queue_of("in") is None
    second.pipe("app-by-value-repartition", "v", "v", 5)
    assert second.sent == []
    assert second.task.commit()
    one = (1).to_bytes(8, "big")
    assert second.sent == [("app-n-changelog", b"v", one, 5, (), 3), ("out", b"v", one, 5, (), None)]
    assert not second.task.commit()


def test_a_task_goes_on_from_a_snapshot() -> None:
    before, after = Running(repartitioned_count(), 0), Running(repartitioned_count(), 0)
    before.pipe("in", "k", "v", 50)
    before.task.metadata["emitted"] = 7
    after.task.restore(before.task.snapshot())
    assert after.task.stream_time == 50
    assert after.task.metadata == {"emitted": 7}
    after.pipe("in", "k", "v", 20)
    assert after.task.stream_time == 50


def test_the_wall_clock_of_an_extractor_is_the_tasks() -> None:
    b = StreamsBuilder()
    consumed = Consumed(key=STRING, value=STRING, timestamp_extractor=WallclockTimestampExtractor())
    b.stream("in", consumed).to("out", Produced(key=STRING, value=STRING))
    running = Running(b.build())
    running.pipe("in", "k", "v", 5)
    assert running.sent == [("out", b"k", b"v", 99, (), None)]


def test_topics_of_a_pattern_share_a_queue_or_have_one_each() -> None:
    builder = StreamsBuilder()
    records = builder.stream(re.compile("in-."), Consumed(key=STRING, value=STRING))
    records.to("out", Produced(key=STRING, value=STRING))
    topology = builder.build()
    shared, own = Running(topology).task, Running(topology, queue_per_topic=True)
    assert shared.queue_of("in-a") is shared.queue_of("in-b") is not None
    assert own.task.queue_of("in-a") is own.task.queue_of("in-a") is not own.task.queue_of("in-b")
    assert own.task.queue_of("other") is None
    own.pipe("in-a", "k", "v", 50)
    after = Running(topology, queue_per_topic=True).task
    after.restore(own.task.snapshot())
    a, b = after.queue_of("in-a"), after.queue_of("in-b")
    assert a is not None and b is not None
    assert (a.partition_time, b.partition_time) == (50, -1)


class Copier(Processor):
    """Puts each count of the first key under the second one, into the store that the counts come from."""

    def init(self, ctx: ProcessorContext) -> None:
        super().init(ctx)
        self.counts = ctx.state_store("n")

    def process(self, record: Record) -> None:
        if record.key == "first":
            self.counts.put("second", ValueAndTimestamp(record.value, record.timestamp))


def test_what_is_put_while_a_task_flushes_for_the_last_time_is_logged_too() -> None:
    b = StreamsBuilder()
    other = b.stream("other", Consumed(key=STRING, value=STRING)).group_by_key().count("n")
    counts = b.stream("in", Consumed(key=STRING, value=STRING)).group_by_key().count("m")
    counts.to_stream().process(Copier, stores=("n",))
    other.to_stream().to("out", Produced(key=STRING, value=Serdes.long()))
    running = Running(b.build())
    running.pipe("in", "first", "x", 5)
    running.task.commit(closing=True)
    logged = [(record[0], record[1]) for record in running.sent]
    assert logged == [("app-m-changelog", b"first"), ("app-n-changelog", b"second"), ("out", b"second")]


class Endless(Processor):
    """Puts a greater count whenever it gets one."""

    def init(self, ctx: ProcessorContext) -> None:
        super().init(ctx)
        self.counts = ctx.state_store("n")

    def process(self, record: Record) -> None:
        self.counts.put(record.key, ValueAndTimestamp(record.value + 1, record.timestamp))


def test_a_store_that_fills_itself_for_ever_is_an_error() -> None:
    b = StreamsBuilder()
    counts = b.stream("in", Consumed(key=STRING, value=STRING)).group_by_key().count("n")
    counts.to_stream().process(Endless, stores=("n",))
    running = Running(b.build())
    running.pipe("in", "first", "x", 5)
    with pytest.raises(StoreError, match="is put into store n"):
        running.task.commit(closing=True)


def test_the_last_flush_shows_other_tables_the_new_values() -> None:
    b = StreamsBuilder()
    consumed = Consumed(key=STRING, value=STRING)
    one = b.stream("a", consumed).group_by_key().count("one")
    other = b.stream("b", consumed).group_by_key().count("other")
    one.join(other, lambda left, right: f"{left} {right}").to_stream().to("out", Produced(key=STRING, value=STRING))
    topology = b.build()
    stores: dict[str, MemoryStore] = {}
    sent: list[tuple[Any, ...]] = []
    for number in range(2):
        task = Task(
            topology,
            StreamsConfig(),
            application_id="app",
            ordered=lambda spec: stores.setdefault(spec.name, MemoryStore()),
            send=lambda *record: sent.append(record),
            clock=lambda: 99,
        )
        task.process_merged(0, {topic: [(number, number, b"k", b"v", NO_HEADERS)] for topic in ("a", "b")})
        task.commit(closing=True)
        task.close()
    assert [record[2] for record in sent if record[0] == "out"][-1] == b"2 2"
