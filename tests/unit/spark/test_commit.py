"""Calls of the producer that do not come back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.errors import FencedError, KafkaAway
from headrace.kafka.clients import ClientSettings
from headrace.spark import commit
from headrace.spark.commit import TransactionalCommitter, _bounded
from headrace.spark.commit_record import CommitRecord
from headrace.spark.fingerprint import Fingerprint
from headrace.spark.results import Outputs


@pytest.fixture
def for_ever(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Something to wait for that does not happen before the test is over."""
    monkeypatch.setattr(commit, "_MARGIN_SECONDS", 0.1)
    monkeypatch.setattr(commit, "_START_SECONDS", 0.1)
    monkeypatch.setattr(commit, "_abandoned", [])
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def producer() -> Producer:
    return Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})


def test_a_call_that_hangs_counts_as_a_kafka_that_is_away(for_ever: threading.Event, producer: Producer) -> None:
    with pytest.raises(KafkaException) as raised:
        _bounded(producer, lambda: wait(for_ever), 0.1)

    assert raised.value.args[0].code() == KafkaError._TIMED_OUT
    assert commit._abandoned == [producer]


def test_what_a_call_raises_is_raised(for_ever: threading.Event, producer: Producer) -> None:
    def fail() -> None:
        raise KafkaException(KafkaError(KafkaError._FENCED))

    with pytest.raises(KafkaException) as raised:
        _bounded(producer, fail, 0.1)

    assert raised.value.args[0].code() == KafkaError._FENCED
    assert commit._abandoned == []


def test_a_start_that_hangs_counts_as_a_kafka_that_is_away(
    for_ever: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stuck:
        def __init__(self, *settings: Any, **options: Any) -> None:
            pass

        def init_transactions(self, seconds: float) -> None:
            wait(for_ever)

    monkeypatch.setattr(commit, "Producer", Stuck)
    with pytest.raises(KafkaAway, match=r"127\.0\.0\.1:1 does not answer"):
        TransactionalCommitter(ClientSettings("127.0.0.1:1"), "app")


@pytest.mark.parametrize(
    ("on_abort", "reason"), [(KafkaError._FENCED, FencedError), (None, KafkaAway)], ids=["fenced", "not fenced"]
)
def test_a_commit_that_fails_without_a_reason_is_asked_about(
    for_ever: threading.Event, monkeypatch: pytest.MonkeyPatch, on_abort: int | None, reason: type[Exception]
) -> None:
    fails(monkeypatch, on_abort)
    monkeypatch.setattr(commit, "last_commit", lambda *given: None)
    committer = TransactionalCommitter(ClientSettings("127.0.0.1:1"), "app", timeout=1.0)
    record = CommitRecord(1, "token", {}, {}, {}, {}, Fingerprint({}, {}, {}))
    with pytest.raises(reason):
        committer.commit(Outputs(), record, {})


def fails(monkeypatch: pytest.MonkeyPatch, on_abort: int | None) -> None:
    """A producer whose commit fails, as Kafka's does when a second producer comes meanwhile; the abort may tell why."""
    known: list[KafkaError] = []

    class Failing:
        def __init__(self, *settings: Any, **options: Any) -> None:
            pass

        def __len__(self) -> int:
            return 0

        def init_transactions(self, seconds: float) -> None:
            pass

        def begin_transaction(self) -> None:
            if known:
                raise KafkaException(known[0])

        def produce(self, *given: Any) -> None:
            pass

        def poll(self, seconds: float) -> int:
            return 0

        def flush(self, seconds: float) -> int:
            return 0

        def commit_transaction(self, seconds: float) -> None:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN))

        def abort_transaction(self, seconds: float) -> None:
            if on_abort is not None:
                known.append(KafkaError(on_abort, fatal=True))
                raise KafkaException(known[0])

    monkeypatch.setattr(commit, "Producer", Failing)


def wait(event: threading.Event) -> None:
    event.wait()
