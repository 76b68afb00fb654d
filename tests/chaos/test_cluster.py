"""The kill test on three brokers in short: each is taken away once, and the network is bad in every way."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.chaos.cluster import KafkaCluster
from tests.chaos.cluster_rounds import EVERY_TROUBLE, play_on_cluster
from tests.chaos.rounds import Scene

ORDERS = 2_800
RECORDS_A_BATCH = 100


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Orders in three brokers."""
    directory = tmp_path_factory.mktemp("chaos")
    with KafkaCluster(directory / "cluster") as cluster:
        yield Scene.set(cluster, directory, ORDERS, RECORDS_A_BATCH)


def test_is_exact_whatever_becomes_of_brokers_and_network(scene: Scene) -> None:
    outcome = play_on_cluster(scene, f"{EVERY_TROUBLE}-{random.SystemRandom().randrange(1_000_000)}")
    assert not outcome.problems, outcome
