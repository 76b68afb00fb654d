"""Kafka goes away while an application runs: it waits, says so once, and goes on."""

from __future__ import annotations

import functools
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from headrace import Streams
from headrace.kafka.embedded import EmbeddedKafka
from tests.spark.lab import Lab, await_file, await_that, held_up

PATIENCE = 240.0


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A broker that nobody else uses."""
    with EmbeddedKafka(tmp_path_factory.mktemp("kafka"), port=0) as kafka:
        yield kafka


@pytest.fixture
def lab(kafka: EmbeddedKafka, spark: SparkContext, tmp_path: Path) -> Lab:
    return Lab(kafka.bootstrap_servers, tmp_path)


def tell_broker(kafka: EmbeddedKafka, number: signal.Signals) -> None:
    endpoint = kafka.endpoint
    assert endpoint is not None and endpoint.broker is not None
    os.kill(endpoint.broker, number)


def test_a_silent_kafka_is_waited_for(lab: Lab, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture) -> None:
    lab.create_topics()
    caplog.set_level(logging.WARNING, "headrace.pipeline")
    with Streams(lab.topology(store="counts"), lab.config()) as application:
        lab.send("a", "b")
        application.process_all_available()
        tell_broker(kafka, signal.SIGSTOP)
        try:
            await_that(lambda: application.trouble, "it does not notice", PATIENCE)
            assert application.state == "REBALANCING"
            assert application.trouble == f"waiting for Kafka at {lab.servers}"
        finally:
            tell_broker(kafka, signal.SIGCONT)
        await_that(lambda: application.state == "RUNNING", "it does not go on", PATIENCE)
        assert application.trouble is None
        lab.send("c")
        application.process_all_available()
    assert lab.written() == ["A", "B", "C"]
    said = [record.getMessage() for record in caplog.records if record.name == "headrace.pipeline"]
    assert said == [
        f"Kafka at {lab.servers} does not answer; the application waits and goes on by itself.",
        "Kafka answers again; the application goes on.",
    ]


def test_a_silent_kafka_does_not_keep_an_application_from_ending(lab: Lab, kafka: EmbeddedKafka) -> None:
    lab.create_topics()
    application = Streams(lab.topology(), lab.config())
    application.start()
    tell_broker(kafka, signal.SIGSTOP)
    try:
        await_that(lambda: application.trouble, "it does not notice", PATIENCE)
        application.close()
    finally:
        tell_broker(kafka, signal.SIGCONT)
    assert application.state == "NOT_RUNNING"


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_broker_killed_in_a_batch(lab: Lab, kafka: EmbeddedKafka, tmp_path: Path, guarantee: str) -> None:
    lab.create_topics()
    topology = lab.topology(functools.partial(held_up, tmp_path), store="counts")
    with Streams(topology, lab.config(processing_guarantee=guarantee)) as application:
        lab.send("a")
        application.process_all_available()
        lab.send("slow", "b")
        await_file(tmp_path / "there")
        tell_broker(kafka, signal.SIGKILL)
        (tmp_path / "go").touch()
        application.process_all_available()
        await_that(lambda: kafka.endpoint is not None and kafka.endpoint.ready, "no broker comes", PATIENCE)
        lab.send("c")
        application.process_all_available()
    written = lab.written()
    assert list(dict.fromkeys(written)) == ["A", "SLOW", "B", "C"]
    assert guarantee == "at_least_once" or len(written) == 4
