"""A call of the producer that does not come back."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.spark import commit
from headrace.spark.commit import TransactionalCommitter


@pytest.fixture
def committer(monkeypatch: pytest.MonkeyPatch) -> TransactionalCommitter:
    monkeypatch.setattr(commit, "_MARGIN_SECONDS", 0.1)
    monkeypatch.setattr(commit, "_abandoned", [])
    made = object.__new__(TransactionalCommitter)
    made._timeout = 0.1
    made._producer = object()
    return made


def test_a_call_that_hangs_counts_as_a_kafka_that_is_away(committer: TransactionalCommitter) -> None:
    for_ever = threading.Event()
    with pytest.raises(KafkaException) as raised:
        committer._bounded(for_ever.wait)
    for_ever.set()

    assert raised.value.args[0].code() == KafkaError._TIMED_OUT
    assert commit._abandoned == [committer._producer]


def test_what_a_call_raises_is_raised(committer: TransactionalCommitter) -> None:
    def fail() -> None:
        raise KafkaException(KafkaError(KafkaError._FENCED))

    with pytest.raises(KafkaException) as raised:
        committer._bounded(fail)

    assert raised.value.args[0].code() == KafkaError._FENCED
    assert commit._abandoned == []
