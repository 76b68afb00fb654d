"""What a batch has to see to, on Spark and a real Kafka: lost state, punctuations, patterns, partitions."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark import SparkContext

from headrace import (
    SHUTDOWN_CLIENT,
    Consumed,
    Joined,
    Processor,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    Streams,
    StreamsBuilder,
    StreamsConfig,
    Topology,
)
from headrace.errors import EnvironmentFailed, TopologyError, UnknownTopicError
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec
from tests.spark.lab import await_that

TEXT, LONG = Serdes.string(), Serdes.long()
SECONDS = 300.0
"""Longer than anything here takes."""


class Lab:
    """An application's own topics, and ways to write and read them."""

    def __init__(self, servers: str, directory: Path) -> None:
        self.application_id = f"lab-{uuid.uuid4().hex[:8]}"
        self.directory = directory
        self.servers = servers
        self.settings = ClientSettings(servers)
        self._producer = Producer(self.settings.producer(enable_idempotence=True))
        self._application: Streams

    def streams(self, topology: Topology, **settings: object) -> Streams:
        config = StreamsConfig(
            application_id=self.application_id,
            bootstrap_servers=self.servers,
            state_dir=str(self.directory),
            **settings,
        )
        self._application = Streams(topology, config)
        return self._application

    def topic(self, name: str) -> str:
        return f"{self.application_id}.{name}"

    def create(self, **partitions: int) -> None:
        Topics(self.settings).create([TopicSpec(self.topic(name), count) for name, count in partitions.items()])

    def grow(self, name: str, partitions: int) -> None:
        """Gives a topic more partitions."""
        topic = self.topic(name)
        admin = AdminClient(self.settings.admin())
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()
        topics, deadline = Topics(self.settings), time.monotonic() + SECONDS
        while topics.describe([topic])[topic] < partitions:
            assert time.monotonic() < deadline, f"{topic} does not grow"
        # A producer that knows the topic looks for new partitions every few minutes only.
        self._producer = Producer(self.settings.producer(enable_idempotence=True))

    def send(self, name: str, *values: str, partition: int = 0, key: str = "k") -> None:
        for value in values:
            self._producer.produce(self.topic(name), value, key, partition)
        self._producer.flush()

    def read_to(self, name: str, last: str) -> list[str]:
        """The values of a topic up to one."""
        count = 1
        while (values := self.read(name, count))[-1] != last:
            count += 1
        return values

    def read(self, name: str, count: int, partitions: int = 1) -> list[str]:
        """The first values of a topic, as soon as there are so many."""
        consumer = Consumer(
            self.settings.consumer(**{"group.id": uuid.uuid4().hex, "isolation.level": "read_committed"})
        )
        consumer.assign([TopicPartition(self.topic(name), number, 0) for number in range(partitions)])
        values: list[str] = []
        deadline = time.monotonic() + SECONDS
        while len(values) < count:
            assert time.monotonic() < deadline, f"{name} has only {values}"
            self._application.wait(0)  # raises what made it fail
            message = consumer.poll(1)
            if message is not None:
                assert message.error() is None, message.error()
                values.append(message.value().decode())
        consumer.close()
        return values


@pytest.fixture
def lab(embedded_kafka: EmbeddedKafka, spark: SparkContext, tmp_path: Path) -> Lab:
    return Lab(embedded_kafka.bootstrap_servers, tmp_path)


def copying(lab: Lab, source: str | re.Pattern[str], change: Callable[[str], str] = str.upper) -> Topology:
    """Writes what it reads to `out`."""
    builder = StreamsBuilder()
    records = builder.stream(source, Consumed(key=TEXT, value=TEXT))
    records.map_values(change).to(lab.topic("out"), Produced(key=TEXT, value=TEXT))
    return builder.build()


# --- lost state ----------------------------------------------------------------------------------------------------


def test_an_application_that_lost_its_commits_is_refused(lab: Lab) -> None:
    lab.create(**{"in": 1, "out": 1})
    topology = copying(lab, lab.topic("in"))
    with lab.streams(topology) as application:
        lab.send("in", "a")
        application.process_all_available()
    Topics(lab.settings).delete([f"{lab.application_id}-commits"])
    lab.send("in", "b")
    for _ in range(2):
        with pytest.raises(EnvironmentFailed, match=r"(?s)has run before.*has committed offsets.*headrace reset"):
            lab.streams(topology).start()
    assert lab.read("out", 1) == ["A"]


# --- punctuations --------------------------------------------------------------------------------------------------


class Ticking(Processor[str, str]):
    """Forwards what it is told of, and that time passes."""

    def init(self, ctx) -> None:
        super().init(ctx)
        ctx.schedule(timedelta(milliseconds=200), PunctuationType.WALL_CLOCK_TIME, lambda time: self.count("tick"))

    def process(self, record: Record[str, str]) -> None:
        self.count(record.value)

    def count(self, what: str) -> None:
        self.ctx.forward(Record("k", what, 1))


class CountingTicks(Ticking):
    """The same with the number of each in a store."""

    def count(self, what: str) -> None:
        store = self.ctx.state_store("counts")
        number = (store.get(what) or 0) + 1
        store.put(what, number)
        super().count(f"{what} {number}")


def ticking(lab: Lab, processor: type[Processor], *stores: str) -> Topology:
    builder = StreamsBuilder()
    for store in stores:
        builder.add_state_store(Stores.key_value(store, key=TEXT, value=LONG))
    records = builder.stream(lab.topic("in"), Consumed(key=TEXT, value=TEXT))
    records.process(processor, stores=stores).to(lab.topic("out"), Produced(key=TEXT, value=TEXT))
    return builder.build()


def test_the_wall_clock_ticks_without_any_record(lab: Lab) -> None:
    lab.create(**{"in": 2, "out": 1})
    with lab.streams(ticking(lab, Ticking)):
        assert lab.read("out", 4) == ["tick"] * 4
    assert "headrace-batches" not in {thread.name for thread in threading.enumerate()}


def test_punctuations_and_records_take_turns_and_go_on_after_a_restart(lab: Lab) -> None:
    lab.create(**{"in": 1, "out": 1})
    topology = ticking(lab, CountingTicks, "counts")
    written: list[str] = []
    for word in ("a", "b"):
        with lab.streams(topology) as application:
            written = lab.read("out", len(written) + 2)
            lab.send("in", "record", word)
            application.process_all_available()
            written = lab.read_to("out", f"{word} 1")
            written = lab.read("out", len(written) + 2)
    ticks = [int(value.split()[1]) for value in written if value.startswith("tick")]
    assert ticks == list(range(1, len(ticks) + 1))
    assert [value for value in written if value.startswith("record")] == ["record 1", "record 2"]
    assert {"a 1", "b 1"} < set(written)


class FailingTick(Ticking):
    """Fails as soon as the clock ticks."""

    def count(self, what: str) -> None:
        raise ValueError("the clock is broken")


def test_a_punctuation_that_fails_ends_the_application_as_a_batch_does(lab: Lab) -> None:
    lab.create(**{"in": 1, "out": 1})
    application = lab.streams(ticking(lab, FailingTick))
    asked: list[Exception] = []

    def stop(error: Exception) -> object:
        asked.append(error)
        return SHUTDOWN_CLIENT

    application.set_uncaught_exception_handler(stop)
    application.start()
    with pytest.raises(Exception, match="the clock is broken"):
        application.wait(SECONDS)
    assert application.state == "ERROR"
    assert len(asked) == 1
    assert "headrace-batches" not in {thread.name for thread in threading.enumerate()}


# --- topics and partitions -----------------------------------------------------------------------------------------


def test_a_pattern_takes_in_topics_that_come_later(lab: Lab) -> None:
    lab.create(**{"in-a": 1, "out": 1, "other": 1})
    pattern = re.compile(re.escape(lab.topic("IN-")) + "(?P<which>.)", re.IGNORECASE)
    with lab.streams(copying(lab, pattern)) as application:
        lab.send("in-a", "first")
        application.process_all_available()
        assert lab.read("out", 1) == ["FIRST"]
        lab.create(**{"in-b": 1})
        lab.send("in-b", "second")
        lab.send("other", "nobody's")
        assert lab.read("out", 2) == ["FIRST", "SECOND"]
        lab.send("in-a", "third")
        application.process_all_available()
    assert lab.read("out", 3) == ["FIRST", "SECOND", "THIRD"]
    committed = {each.topic: each.lag for each in Topics(lab.settings).lag(lab.application_id, [lab.topic("in-b")])}
    assert committed == {lab.topic("in-b"): 0}


def test_a_source_can_begin_with_what_comes_next(lab: Lab) -> None:
    lab.create(new=2, old=1, out=1)
    builder = StreamsBuilder()
    for name, reset in (("new", "latest"), ("old", "earliest")):
        records = builder.stream(lab.topic(name), Consumed(key=TEXT, value=TEXT, offset_reset=reset))
        records.to(lab.topic("out"), Produced(key=TEXT, value=TEXT))
    for name in ("new", "old"):
        lab.send(name, f"{name} before")
    with lab.streams(builder.build()) as application:
        application.process_all_available()
        lab.send("new", "new after", partition=1)
        application.process_all_available()
    assert lab.read("out", 2) == ["old before", "new after"]


def test_a_pattern_that_means_no_topic_is_refused(lab: Lab) -> None:
    lab.create(out=1)
    with pytest.raises(UnknownTopicError, match="nothing-like-it"):
        lab.streams(copying(lab, re.compile("nothing-like-it.*"))).start()


@pytest.mark.parametrize("by_pattern", [True, False])
def test_a_partition_without_a_task_is_an_error(lab: Lab, by_pattern: bool) -> None:
    lab.create(**{"in": 2, "out": 1})
    source = re.compile(re.escape(lab.topic("in"))) if by_pattern else lab.topic("in")
    application = lab.streams(copying(lab, source))
    application.start()
    lab.send("in", "before")
    application.process_all_available()
    lab.grow("in", 4)
    lab.send("in", "after", partition=3)
    with pytest.raises(Exception, match=rf"Partition 3 of topic {re.escape(lab.topic('in'))} has no task.* runs 2"):
        application.wait(SECONDS)
    application.close()
    # Without stores, it goes on when it is started again, with as many tasks as it takes.
    with lab.streams(copying(lab, source)) as again:
        again.process_all_available()
    assert lab.read("out", 2) == ["BEFORE", "AFTER"]


def test_topics_of_one_task_may_have_different_numbers_of_partitions(lab: Lab) -> None:
    lab.create(small=1, large=3, out=1)
    builder = StreamsBuilder()
    streams = [builder.stream(lab.topic(name), Consumed(key=TEXT, value=TEXT)) for name in ("small", "large")]
    streams[0].merge(streams[1]).to(lab.topic("out"), Produced(key=TEXT, value=TEXT))
    with lab.streams(builder.build()) as application:
        lab.send("small", "a")
        lab.send("large", "b", partition=0)
        lab.send("large", "c", partition=2)
        application.process_all_available()
    assert sorted(lab.read("out", 3)) == ["a", "b", "c"]


def test_joined_topics_must_have_the_same_number_of_partitions(lab: Lab) -> None:
    lab.create(**{"in": 2, "table": 3, "out": 1})
    builder = StreamsBuilder()
    table = builder.table(lab.topic("table"), Consumed(key=TEXT, value=TEXT))
    records = builder.stream(lab.topic("in"), Consumed(key=TEXT, value=TEXT))
    records.join(table, lambda left, right: left + right).to(lab.topic("out"), Produced(key=TEXT, value=TEXT))
    with pytest.raises(TopologyError, match=rf"{re.escape(lab.topic('in'))} has 2, .*table has 3"):
        lab.streams(builder.build()).start()


def test_a_partitioner_is_told_how_many_partitions_there_are(lab: Lab) -> None:
    lab.create(**{"in": 1, "out": 3})
    builder = StreamsBuilder()
    records = builder.stream(lab.topic("in"), Consumed(key=TEXT, value=TEXT))
    last = Produced(key=TEXT, value=TEXT, partitioner=lambda topic, key, value, count: count - 1)
    records.to(lab.topic("out"), last)
    with lab.streams(builder.build()) as application:
        lab.send("in", "a")
        application.process_all_available()
    ends = {each.partition: each.end > 0 for each in Topics(lab.settings).lag("nobody", [lab.topic("out")])}
    assert ends == {0: False, 1: False, 2: True}


def test_a_topology_of_global_tables_alone_runs(lab: Lab) -> None:
    lab.create(**{"in": 1})
    builder = StreamsBuilder()
    builder.global_table(lab.topic("in"), Consumed(key=TEXT, value=TEXT))
    with lab.streams(builder.build()) as application:
        lab.send("in", "a")
        application.process_all_available()
        assert application.state == "RUNNING"


def test_a_global_table_is_whole_before_the_first_record(lab: Lab) -> None:
    lab.create(**{"in": 1, "table": 2, "out": 1})
    for number in range(60):
        lab.send("table", f"old {number}", f"new {number}", key=str(number), partition=number % 2)
    lab.send("in", *(str(number) for number in range(60)))
    builder = StreamsBuilder()
    table = builder.global_table(lab.topic("table"), Consumed(key=TEXT, value=TEXT))
    records = builder.stream(lab.topic("in"), Consumed(key=TEXT, value=TEXT))
    joined = records.join(table, lambda number, value: value, key=lambda key, number: number)
    joined.to(lab.topic("out"), Produced(key=TEXT, value=TEXT))
    with lab.streams(builder.build(), spark={"maxOffsetsPerTrigger": 15}) as application:
        application.process_all_available()
        lab.send("table", "newer", key="7", partition=1)
        application.process_all_available()
        lab.send("in", "7", "8")
        application.process_all_available()
    assert lab.read("out", 62) == [*(f"new {number}" for number in range(60)), "newer", "new 8"]


def send_rows_and_records(lab: Lab) -> None:
    """300 rows of a table, then 300 records of later times with the same keys."""
    lab.create(**{"in": 1, "table": 1, "out": 1})
    producer = Producer(lab.settings.producer(enable_idempotence=True))
    for number in range(300):
        producer.produce(lab.topic("table"), f"row {number}", str(number), 0, timestamp=1_000 + number)
    for number in range(300):
        producer.produce(lab.topic("in"), "record", str(number), 0, timestamp=10_000 + number)
    producer.flush()


def test_a_batch_that_ends_early_does_not_let_one_topic_run_ahead_of_another(lab: Lab) -> None:
    """The rows of the table are older than all records, but do not fit into the first batches."""
    send_rows_and_records(lab)
    builder = StreamsBuilder()
    table = builder.table(lab.topic("table"), Consumed(key=TEXT, value=TEXT))
    records = builder.stream(lab.topic("in"), Consumed(key=TEXT, value=TEXT))
    joined = records.left_join(table, lambda record, row: f"{record} with {row}")
    joined.to(lab.topic("out"), Produced(key=TEXT, value=TEXT))
    with lab.streams(builder.build(), spark={"maxOffsetsPerTrigger": 40}) as application:
        application.process_all_available()
    assert lab.read("out", 300) == [f"record with row {number}" for number in range(300)]


def test_what_was_repartitioned_waits_for_a_topic_that_does_not_fit_into_the_batch(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above, but the records come from another sub-topology: none may be lost while they wait, or stay for ever."""
    monkeypatch.setattr("headrace.spark.purge.INTERVAL_SECONDS", 0.0)
    send_rows_and_records(lab)
    builder = StreamsBuilder()
    table = builder.table(lab.topic("table"), Consumed(key=TEXT, value=TEXT))
    records = builder.stream(lab.topic("in"), Consumed(key=TEXT, value=TEXT)).select_key(lambda key, value: key)
    joined = records.left_join(table, lambda record, row: f"{record} with {row}", joined=Joined(key=TEXT, value=TEXT))
    joined.to(lab.topic("out"), Produced(key=TEXT, value=TEXT))
    with lab.streams(builder.build(), spark={"maxOffsetsPerTrigger": 40}) as application:
        application.process_all_available()
    assert lab.read("out", 300) == [f"record with row {number}" for number in range(300)]
    topics = Topics(lab.settings)
    waited = [
        (topic, 0)
        for topic in topics.describe()
        if topic.startswith(lab.application_id) and topic.endswith("-repartition")
    ]
    assert waited
    assert any(topics.ends(waited).values())
    await_that(lambda: all(topics.beginnings(waited).values()), "what was read is not removed")


def test_topics_that_are_written_and_read_are_processed_to_the_end(lab: Lab) -> None:
    lab.create(**{"in": 1, "again": 1, "out": 1})
    builder = StreamsBuilder()
    builder.stream(lab.topic("in"), Consumed(key=TEXT, value=TEXT)).to(
        lab.topic("again"), Produced(key=TEXT, value=TEXT)
    )
    seen: list[int] = []
    again = builder.stream(lab.topic("again"), Consumed(key=TEXT, value=TEXT))
    again.filter(lambda key, value: len(value) < 5).map_values(lambda value: value + "x").to(lab.topic("again"))
    application = lab.streams(builder.build(), default_key_serde=TEXT, default_value_serde=TEXT)
    application.on_progress(lambda progress: seen.append(progress.records))
    with application:
        for rounds in range(1, 4):
            lab.send("in", "x")
            application.process_all_available()
            assert sum(seen) == rounds * 6
    assert lab.read("again", 5) == ["x", "xx", "xxx", "xxxx", "xxxxx"]
