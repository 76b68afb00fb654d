"""Calls of the producer that do not come back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.errors import KafkaAway
from headrace.kafka.clients import ClientSettings
from headrace.spark import commit
from headrace.spark.commit import TransactionalCommitter, _bounded


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


def wait(event: threading.Event) -> None:
    event.wait()
