"""What goes wrong around an application, each with a message that says what and where, and what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from pyspark import SparkContext

from headrace import Consumed, Produced, Serdes, Streams, StreamsBuilder, StreamsConfig, Topology
from headrace.errors import (
    DeserializationFailed,
    EnvironmentFailed,
    FencedError,
    HeadraceError,
    ProductionFailed,
    RecordTooLarge,
    TopologyError,
    UnknownTopicError,
)
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec
from headrace.record import NO_HEADERS
from headrace.responses import REPLACE_THREAD, ExceptionResponse
from headrace.spark.commit import TransactionalCommitter
from headrace.spark.commit_record import CommitRecord
from headrace.spark.ranges import Row
from headrace.spark.results import Outputs
from headrace.task.handlers import CONTINUE, FAIL, ErrorContext, HandlerResponse, OutputRecord
from tests.spark.lab import TEXT, Lab, poisoned


@pytest.fixture
def lab(embedded_kafka: EmbeddedKafka, spark: SparkContext, tmp_path: Path) -> Lab:
    return Lab(embedded_kafka.bootstrap_servers, tmp_path)


def failure_of(topology: Topology, config: StreamsConfig) -> HeadraceError:
    """What makes the application fail."""
    with pytest.raises(HeadraceError) as raised, Streams(topology, config) as application:
        application.wait(600)
    return raised.value


def test_a_broker_that_cannot_be_reached(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(key=TEXT, value=TEXT)).to("out")
    config = StreamsConfig(
        application_id="nobody",
        bootstrap_servers="127.0.0.1:1",
        state_dir=str(tmp_path),
        kafka={"socket.timeout.ms": 2000},
    )
    with pytest.raises(EnvironmentFailed, match=r"^Kafka at 127\.0\.0\.1:1 did not answer .* bootstrap_servers"):
        Streams(builder.build(), config).start()


@pytest.mark.parametrize(("there", "missing", "purpose"), [("out", "in", "reads"), ("in", "out", "writes to")])
def test_missing_topics_are_named_with_the_command_that_makes_them(
    lab: Lab, there: str, missing: str, purpose: str
) -> None:
    Topics(lab.settings).create([TopicSpec(f"{lab.application_id}.{there}", 1)])
    with pytest.raises(UnknownTopicError) as raised:
        Streams(lab.topology(), lab.config()).start()
    topic = f"{lab.application_id}.{missing}"
    assert f"has no topic {topic}, which the topology {purpose}." in str(raised.value)
    assert f"kafka-topics.sh --bootstrap-server {lab.servers} --create --topic {topic} --partitions 4" in str(
        raised.value
    )


def test_bytes_of_another_serde(lab: Lab) -> None:
    lab.create_topics()
    builder = StreamsBuilder()
    number = Serdes.long()
    topic = f"{lab.application_id}.in"
    builder.stream(topic, Consumed(key=TEXT, value=number)).to(f"{lab.application_id}.out", Produced(value=number))
    lab.send("twelve")

    failure = failure_of(builder.build(), lab.config())

    assert isinstance(failure, DeserializationFailed)
    assert f"topic {topic}, partition 0, offset 0: Size of data received by LongDeserializer is not 8" in str(failure)
    assert "set deserialization_exception_handler to LogAndContinue" in str(failure)
    assert "\n" not in str(failure)


def test_a_record_that_the_producer_does_not_send(lab: Lab) -> None:
    lab.create_topics()
    lab.send("a", "long", "b")

    failure = failure_of(lab.topology(inflate), lab.config())

    assert isinstance(failure, ProductionFailed)
    assert str(failure) == (
        f"A record of 2,000,001 bytes for topic {lab.application_id}.out is too large. The producer sends at most "
        "1,000,000 bytes (kafka setting max.request.size), the topic takes at most 1,048,588 (its setting "
        "max.message.bytes). Raise what is too low, or send less."
    )
    assert lab.written() == []


def test_a_record_that_the_producer_does_not_send_can_be_done_without(lab: Lab) -> None:
    lab.create_topics()
    lab.send("a", "long", "b")

    def go_on(context: ErrorContext, record: OutputRecord, error: Exception) -> HandlerResponse:
        too_large = "The record takes up to 2,000,037 bytes, the producer sends at most 1,000,000"
        expected = isinstance(error, RecordTooLarge) and str(error) == too_large and record.topic.endswith(".out")
        return CONTINUE if expected and context.offset == 1 else FAIL

    with Streams(lab.topology(inflate), lab.config(production_exception_handler=go_on)) as application:
        application.process_all_available()

    assert lab.written() == ["a", "b"]


def test_a_record_that_the_broker_does_not_take(lab: Lab) -> None:
    lab.create_topics()
    lab.send("a", "long", "b")
    config = lab.config(kafka={"max.request.size": 3_000_000})

    failure = failure_of(lab.topology(inflate), config)

    assert isinstance(failure, ProductionFailed)
    assert "A record of 2,000,001 bytes for topic" in str(failure)
    assert "at most 3,000,000 bytes (kafka setting max.request.size)" in str(failure)
    assert lab.written() == []

    allow(lab, f"{lab.application_id}.out", 3_000_000)
    with Streams(lab.topology(inflate), config) as application:
        application.process_all_available()
    assert [len(value) for value in lab.written()] == [1, 2_000_000, 1]


def test_a_record_that_the_broker_does_not_take_is_named_whatever_comes_after_it(lab: Lab) -> None:
    """The producer refuses what it is given once the transaction has failed, before it tells why."""
    lab.create_topics()
    with Streams(lab.topology(), lab.config()) as application:
        application.process_all_available()
    settings = ClientSettings(lab.servers, {"max.request.size": 3_000_000})
    committer = TransactionalCommitter(settings, lab.application_id)
    with pytest.raises(ProductionFailed, match="A record of 2,000,001 bytes for topic"):
        committer.commit(LargeThenMany(f"{lab.application_id}.out"), next_commit(committer), {})
    committer.close()
    assert lab.written() == []


class LargeThenMany(Outputs):
    """A record that is too large, and so many others that its answer is there before they are through."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._topic = topic

    def __iter__(self) -> Iterator[tuple[str, list[Row]]]:
        yield self._topic, [(0, 1, b"k", b"v" * 2_000_000, NO_HEADERS)]
        for _ in range(500):
            yield self._topic, [(0, 1, b"k", b"v", NO_HEADERS)] * 1_000


def allow(lab: Lab, topic: str, size: int) -> None:
    """Raises the size of the records that the topic takes."""
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient(lab.settings.admin())
    admin.incremental_alter_configs([resource])[resource].result()


def inflate(value: str) -> str:
    return "x" * 2_000_000 if value == "long" else value


def test_a_second_process_of_the_same_application_takes_over(lab: Lab) -> None:
    lab.create_topics()
    application = Streams(lab.topology(), lab.config())
    with pytest.raises(FencedError) as raised, application:
        lab.send("a")
        application.process_all_available()
        second = TransactionalCommitter(lab.settings, lab.application_id)
        lab.send("b")
        application.wait(600)
    second.close()
    assert application.state == "ERROR"
    assert str(raised.value).startswith(
        f"Another process runs the application {lab.application_id} and has taken over; this one stops."
    )
    assert lab.written() == ["A"]


def next_commit(committer: TransactionalCommitter) -> CommitRecord:
    """A commit that follows the last one."""
    last = committer.last()
    assert last is not None
    return msgspec.structs.replace(last, batch=last.batch + 1, token="another token")


class RefusedHalfway(Outputs):
    """Results that a producer begins with, and goes on with when it knows that it is fenced."""

    def __init__(self, producer: Producer, topic: str) -> None:
        super().__init__()
        self._producer = producer
        self._topic = topic

    def __iter__(self) -> Iterator[tuple[str, list[Row]]]:
        rows: list[Row] = [(0, 1, b"k", b"v", NO_HEADERS)]
        yield self._topic, rows
        with contextlib.suppress(KafkaException):
            while True:
                self._producer.produce(self._topic, b"v")
                self._producer.poll(0.05)
        yield self._topic, rows


def test_a_process_that_finds_itself_fenced_while_it_writes_says_so(lab: Lab) -> None:
    lab.create_topics()
    with Streams(lab.topology(), lab.config()) as application:
        application.process_all_available()
    first = TransactionalCommitter(lab.settings, lab.application_id)
    second = TransactionalCommitter(lab.settings, lab.application_id)
    outputs = RefusedHalfway(first._producer, f"{lab.application_id}.out")
    with pytest.raises(FencedError, match="has taken over"):
        first.commit(outputs, next_commit(first), {})
    first.close()
    second.close()
    assert lab.written() == []


def test_what_another_process_has_gone_on_with_is_not_taken_back(lab: Lab) -> None:
    """An application that failed, and starts again, finds that another has committed a batch meanwhile."""

    def meanwhile(error: Exception) -> ExceptionResponse:
        if not isinstance(error, FencedError):
            second = TransactionalCommitter(lab.settings, lab.application_id)
            second.commit(Outputs(), next_commit(second), {})
            second.close()
        return REPLACE_THREAD

    lab.create_topics()
    application = Streams(lab.topology(poisoned), lab.config())
    application.set_uncaught_exception_handler(meanwhile)
    with pytest.raises(FencedError, match=f"runs the application {lab.application_id} and has taken over"), application:
        lab.send("a")
        application.process_all_available()
        lab.send("poison")
        application.wait(600)
    assert application.state == "ERROR"
    assert lab.written() == ["A"]


def test_the_state_of_another_topology_is_refused(lab: Lab) -> None:
    lab.create_topics()
    with Streams(lab.topology(store="counts"), lab.config()):
        pass
    with pytest.raises(TopologyError, match=r"store counts \(timestamped key-value\) is gone"):
        Streams(lab.topology(), lab.config()).start()


def test_a_setting_that_kafka_does_not_know(lab: Lab) -> None:
    with pytest.raises(HeadraceError, match=r"no.such.setting"):
        Streams(lab.topology(), lab.config(kafka={"no.such.setting": 1})).start()


def test_a_topic_that_a_function_names_and_nobody_has_made(lab: Lab) -> None:
    lab.create_topics()
    builder = StreamsBuilder()
    records = builder.stream(f"{lab.application_id}.in", Consumed(key=TEXT, value=TEXT))
    records.to(lambda key, value, context: value, Produced(key=TEXT, value=TEXT))
    lab.send(f"{lab.application_id}.nowhere")

    failure = failure_of(builder.build(), lab.config(kafka={"producer.topic.metadata.propagation.max.ms": 1000}))

    assert isinstance(failure, ProductionFailed)
    assert f"has no topic {lab.application_id}.nowhere, which the topology writes to" in str(failure)
