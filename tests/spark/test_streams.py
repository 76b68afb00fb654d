"""The life of an application: states, handlers, wrong input."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from headrace import (
    REPLACE_THREAD,
    SHUTDOWN_CLIENT,
    Consumed,
    LogAndContinue,
    Produced,
    Serdes,
    Streams,
    StreamsBuilder,
    StreamsConfig,
    Topology,
)
from headrace.errors import ConfigError, EnvironmentFailed, TopologyError, UnknownTopicError
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec
from tests.spark.running import read_all

TEXT = Serdes.string()


class Lab:
    """An application's own topics, and ways to write and read them."""

    def __init__(self, servers: str, directory: Path) -> None:
        self.application_id = f"lab-{uuid.uuid4().hex[:8]}"
        self.directory = directory
        self.servers = servers
        self.settings = ClientSettings(servers)
        self._producer = Producer(self.settings.producer())

    def config(self, **settings: object) -> StreamsConfig:
        return StreamsConfig(
            application_id=self.application_id,
            bootstrap_servers=self.servers,
            state_dir=str(self.directory),
            **settings,
        )

    def create_topics(self) -> None:
        Topics(self.settings).create([TopicSpec(f"{self.application_id}.{name}", 1) for name in ("in", "out", "dlq")])

    def send(self, *values: str) -> None:
        for value in values:
            self._producer.produce(f"{self.application_id}.in", value, "k")
        self._producer.flush()

    def written(self, name: str = "out") -> list[str]:
        return [(value or b"").decode() for _, value, *_ in read_all(self.settings, f"{self.application_id}.{name}")]

    def topology(self, marker: Path | None = None, store: str | None = None) -> Topology:
        """Upper case; "poison" raises, with a marker only until that exists."""

        def shout(value: str) -> str:
            if value == "poison" and (marker is None or not marker.exists()):
                if marker is not None:
                    marker.touch()
                raise ValueError("poisoned")
            return value.upper()

        builder = StreamsBuilder()
        records = builder.stream(f"{self.application_id}.in", Consumed(key=TEXT, value=TEXT))
        records.map_values(shout).to(f"{self.application_id}.out", Produced(value=TEXT))
        if store is not None:
            records.group_by_key().count(store)
        return builder.build()


@pytest.fixture
def lab(embedded_kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path) -> Lab:
    return Lab(embedded_kafka.bootstrap_servers, tmp_path)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_states_and_progress(lab: Lab, guarantee: str) -> None:
    lab.create_topics()
    application = Streams(lab.topology(), lab.config(processing_guarantee=guarantee))
    assert application.state == "CREATED"
    seen = []
    application.on_progress(seen.append)
    with application:
        assert application.state == "RUNNING"
        lab.send("a", "b")
        application.process_all_available()
    assert application.state == "NOT_RUNNING"
    assert sum(progress.records for progress in seen) == 2
    assert lab.written() == ["A", "B"]


def test_a_poisoned_record_asks_the_handler_and_nothing_of_its_batch_shows(lab: Lab) -> None:
    lab.create_topics()
    lab.send("a", "poison", "b")
    application = Streams(lab.topology(), lab.config())
    asked: list[Exception] = []

    def stop(error: Exception) -> object:
        asked.append(error)
        return SHUTDOWN_CLIENT

    application.set_uncaught_exception_handler(stop)
    with pytest.raises(Exception, match="poisoned"), application:
        application.wait(60)
    assert application.state == "ERROR"
    assert len(asked) == 1
    assert lab.written() == []


def test_replace_thread_goes_on_where_the_last_commit_left_off(lab: Lab, tmp_path: Path) -> None:
    lab.create_topics()
    application = Streams(lab.topology(marker=tmp_path / "tried"), lab.config())
    application.set_uncaught_exception_handler(lambda error: REPLACE_THREAD)
    done = []
    application.on_progress(done.append)
    with application:
        lab.send("a", "poison", "b")
        while sum(progress.records for progress in done) < 3:
            assert not application.wait(0.2)
    assert lab.written() == ["A", "POISON", "B"]


def test_log_and_continue_sends_dead_letters(lab: Lab) -> None:
    lab.create_topics()
    config = lab.config(
        processing_exception_handler=LogAndContinue, dead_letter_queue_topic=f"{lab.application_id}.dlq"
    )
    with Streams(lab.topology(), config) as application:
        lab.send("a", "poison", "b")
        application.process_all_available()
    assert lab.written() == ["A", "B"]
    assert lab.written("dlq") == ["poison"]


def test_a_checkpoint_of_another_topology_is_refused(lab: Lab) -> None:
    lab.create_topics()
    with Streams(lab.topology(store="counts"), lab.config()):
        pass
    with pytest.raises(TopologyError, match=r"store counts \(timestamped key-value\) is gone"):
        Streams(lab.topology(), lab.config()).start()


def test_missing_topics_are_named(lab: Lab) -> None:
    with pytest.raises(UnknownTopicError, match=rf"{lab.application_id}\.in"):
        Streams(lab.topology(), lab.config()).start()


def test_a_broker_that_cannot_be_reached() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(key=TEXT, value=TEXT)).to("out")
    config = StreamsConfig(application_id="nobody", bootstrap_servers="127.0.0.1:1", kafka={"socket.timeout.ms": 2000})
    with pytest.raises(EnvironmentFailed, match=r"127\.0\.0\.1:1"):
        Streams(builder.build(), config).start()


def test_a_missing_serde_and_a_missing_application_id_are_found_at_once() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    with pytest.raises(ConfigError, match="No key serde for source node"):
        Streams(builder.build(), StreamsConfig(application_id="x"))
    with pytest.raises(ConfigError, match="application_id is needed"):
        Streams(builder.build(), StreamsConfig())
