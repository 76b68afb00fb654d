"""The kill test in short: every phase and loss once, and a random moment for each victim. `make chaos` is the whole."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from headrace.kafka.embedded import EmbeddedKafka
from tests.chaos.rounds import EVERY_LOSS, EVERY_PHASE, EVERY_VICTIM, STOPPED_AFTER, Outcome, Scene, play

ORDERS = 6_000
RECORDS_A_BATCH = 400


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Orders in a broker of their own, which may be killed."""
    directory = tmp_path_factory.mktemp("chaos")
    with EmbeddedKafka(directory / "kafka", port=0) as kafka:
        yield Scene.set(kafka, directory, ORDERS, RECORDS_A_BATCH)


@pytest.mark.parametrize("kind", [EVERY_PHASE, EVERY_LOSS, EVERY_VICTIM])
def test_is_exact_whatever_is_killed(scene: Scene, kind: str) -> None:
    outcome = _played(scene, kind)
    assert not outcome.problems, outcome


@pytest.mark.parametrize("kind", STOPPED_AFTER)
def test_a_leader_that_wakes_up_after_its_first_commit_leaves_the_state_of_the_next_one_alone(
    scene: Scene, kind: str
) -> None:
    """Where state was files that a leader cleaned up after its first commit, it deleted those of the next one."""
    outcome = _played(scene, kind)
    assert not outcome.problems, outcome


def _played(scene: Scene, kind: str) -> Outcome:
    while (outcome := play(scene, f"{kind}-{random.SystemRandom().randrange(1_000_000)}")).is_void:
        print(outcome)
    return outcome
