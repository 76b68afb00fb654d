"""The kill test in short: every phase once, and a random moment for each victim. `make chaos` is the whole."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from headrace.kafka.embedded import EmbeddedKafka
from tests.chaos.rounds import EVERY_PHASE, EVERY_VICTIM, Scene, play

ORDERS = 6_000
RECORDS_A_BATCH = 500


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Orders in a broker of their own, which may be killed."""
    directory = tmp_path_factory.mktemp("chaos")
    with EmbeddedKafka(directory / "kafka", port=0) as kafka:
        yield Scene.set(kafka, directory, ORDERS, RECORDS_A_BATCH)


@pytest.mark.parametrize("kind", [EVERY_PHASE, EVERY_VICTIM])
def test_is_exact_whatever_is_killed(scene: Scene, kind: str) -> None:
    while (outcome := play(scene, f"{kind}-{random.SystemRandom().randrange(1_000_000)}")).is_void:
        print(outcome)
    assert not outcome.problems, outcome
