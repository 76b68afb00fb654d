"""The life of an application: states, handlers, the end."""

from __future__ import annotations

import functools
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from headrace import (
    REPLACE_THREAD,
    SHUTDOWN_APPLICATION,
    SHUTDOWN_CLIENT,
    LogAndContinue,
    Streams,
    StreamsBuilder,
    StreamsConfig,
)
from headrace.errors import ConfigError, KafkaAway, ProcessingFailed, StreamsError
from headrace.kafka.embedded import EmbeddedKafka
from headrace.presence import at_rest
from headrace.spark.commit import TransactionalCommitter
from tests.spark.lab import Lab, await_file, await_that, held_up, once, poisoned

PATIENCE = 600.0


@pytest.fixture
def lab(embedded_kafka: EmbeddedKafka, spark: SparkContext, tmp_path: Path) -> Lab:
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
    application = Streams(lab.topology(poisoned), lab.config())
    asked: list[Exception] = []

    def stop(error: Exception) -> object:
        asked.append(error)
        return SHUTDOWN_CLIENT

    application.set_uncaught_exception_handler(stop)
    with pytest.raises(ProcessingFailed, match="poisoned"), application:
        application.wait(PATIENCE)
    assert application.state == "ERROR"
    assert len(asked) == 1
    assert lab.written() == []


def test_replace_thread_goes_on_where_the_last_commit_left_off(lab: Lab, tmp_path: Path) -> None:
    lab.create_topics()
    application = Streams(lab.topology(functools.partial(once, tmp_path / "tried", misfortune=fail)), lab.config())
    application.set_uncaught_exception_handler(lambda error: REPLACE_THREAD)
    done = []
    application.on_progress(done.append)
    with application:
        lab.send("a", "poison", "b")
        while sum(progress.records for progress in done) < 3:
            assert not application.wait(0.2)
    assert lab.written() == ["A", "POISON", "B"]


def test_a_restart_that_finds_kafka_away_is_tried_again(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absences = [KafkaAway("not yet"), KafkaAway("not quite")]

    class Committer(TransactionalCommitter):
        def __init__(self, *arguments: Any) -> None:
            if (tmp_path / "tried").exists() and absences:
                raise absences.pop()
            super().__init__(*arguments)

    monkeypatch.setattr("headrace.spark.engine.TransactionalCommitter", Committer)
    lab.create_topics()
    application = Streams(lab.topology(functools.partial(once, tmp_path / "tried", misfortune=fail)), lab.config())
    application.set_uncaught_exception_handler(lambda error: REPLACE_THREAD)
    done = []
    application.on_progress(done.append)
    with application:
        lab.send("a", "poison", "b")
        while sum(progress.records for progress in done) < 3:
            assert not application.wait(0.2)
    assert not absences
    assert lab.written() == ["A", "POISON", "B"]


def test_log_and_continue_sends_dead_letters(lab: Lab) -> None:
    lab.create_topics()
    config = lab.config(
        processing_exception_handler=LogAndContinue, dead_letter_queue_topic=f"{lab.application_id}.dlq"
    )
    with Streams(lab.topology(poisoned), config) as application:
        lab.send("a", "poison", "b")
        application.process_all_available()
    assert lab.written() == ["A", "B"]
    assert lab.written("dlq") == ["poison"]


def fail() -> None:
    raise ValueError("poisoned")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_shutting_down_the_application_reaches_whoever_speaks_for_the_others(lab: Lab) -> None:
    lab.create_topics()
    lab.send("poison")
    application = Streams(lab.topology(poisoned), lab.config())
    application.set_uncaught_exception_handler(lambda error: SHUTDOWN_APPLICATION)
    told: list[Exception] = []
    application.on_shutdown_application(told.append)
    with pytest.raises(ProcessingFailed, match="poisoned"), application:
        application.wait(PATIENCE)
    assert [type(error) for error in told] == [ProcessingFailed]


def test_a_worker_that_is_killed_costs_a_second_attempt(lab: Lab, tmp_path: Path) -> None:
    lab.create_topics()
    topology = lab.topology(functools.partial(once, tmp_path / "tried", misfortune=die), store="counts")
    with Streams(topology, lab.config()) as application:
        lab.send("a", "poison", "b")
        application.process_all_available()
    assert (tmp_path / "tried").exists()
    assert lab.written() == ["A", "POISON", "B"]


def test_a_function_that_brings_python_down_is_given_up(lab: Lab) -> None:
    def crash(value: str) -> str:
        die()
        return value

    lab.create_topics()
    lab.send("a")
    died = "A process that ran a part of the batch died, and died again"
    with pytest.raises(StreamsError, match=died), Streams(lab.topology(crash), lab.config()) as application:
        application.wait(PATIENCE)
    assert lab.written() == []


def test_closing_lets_the_running_batch_end_and_begins_no_other(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.spark.engine._LAST_BATCH_SECONDS", PATIENCE)
    lab.create_topics()
    topology = lab.topology(functools.partial(held_up, tmp_path), store="counts")
    application = Streams(topology, lab.config())
    application.start()
    lab.send("slow")
    await_file(tmp_path / "there")
    lab.send("later")
    closing = threading.Thread(target=application.close)
    closing.start()
    await_that(lambda: application.state == "PENDING_SHUTDOWN", "it does not close")
    (tmp_path / "go").touch()
    closing.join(PATIENCE)
    assert application.state == "NOT_RUNNING"
    assert lab.written() == ["SLOW"]

    with Streams(topology, lab.config()) as application:
        application.process_all_available()
    assert lab.written() == ["SLOW", "LATER"]


def test_an_application_that_runs_cannot_be_reset(lab: Lab) -> None:
    lab.create_topics()
    with (
        Streams(lab.topology(), lab.config()),
        pytest.raises(StreamsError, match="is running"),
        at_rest(lab.directory, lab.application_id),
    ):
        pass
    with at_rest(lab.directory, lab.application_id), pytest.raises(StreamsError, match="is being reset"):
        Streams(lab.topology(), lab.config()).start()


def test_a_missing_serde_and_a_missing_application_id_are_found_at_once() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    with pytest.raises(ConfigError, match="No key serde for source node"):
        Streams(builder.build(), StreamsConfig(application_id="x"))
    with pytest.raises(ConfigError, match="application_id is needed"):
        Streams(builder.build(), StreamsConfig())
