"""Three instances that die and come back answer right all the time. `python -m tests.histories` is the long form."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.kafka.embedded import EmbeddedKafka
from tests.histories.run import Outcome, play, roll
from tests.histories.strikes import KINDS

pytestmark = pytest.mark.acceptance


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(tmp_path / "state", port=0) as kafka:
        yield kafka


def test_no_answer_is_wrong_while_instances_are_killed_and_stopped(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    outcome = play(kafka, tmp_path, 0, _seed())
    _see(outcome)
    assert sum(outcome.strikes.values()) == len(KINDS)


def test_a_rolling_restart_leaves_no_read_without_the_right_answer(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    outcome = roll(kafka, tmp_path, 1, _seed())
    _see(outcome)
    assert outcome.strikes == {"restart": 3}


def _seed() -> int:
    return random.SystemRandom().randrange(1_000_000)


def _see(outcome: Outcome) -> None:
    print(f"\n{outcome}")
    assert outcome.reads
    assert not outcome.inexact, outcome
    assert not outcome.violations, "\n".join(map(str, [outcome, *outcome.violations[:5]]))
