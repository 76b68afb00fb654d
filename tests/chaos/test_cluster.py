"""The kill test on three brokers in short: each is taken away once, and the network is bad in every way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.kafka.clients import ClientSettings
from headrace.kafka.home import HOST
from headrace.kafka.internal_topics import commits_topic
from headrace.kafka.topics import Topics, TopicSpec
from headrace.record import NO_HEADERS
from headrace.spark.changelog_ends import ChangelogEnds
from headrace.spark.commit import PlainCommitter, TransactionalCommitter
from headrace.spark.commit_record import CommitRecord
from headrace.spark.fingerprint import Fingerprint
from headrace.spark.parcels import DRIVER, ParcelWriter
from headrace.spark.reader import KafkaReader
from headrace.spark.rebuild import Changelogs
from headrace.spark.results import Outputs
from headrace.state.memory import MemoryStore
from headrace.topology.stores import StoreKind, StoreSpec
from tests.chaos.cluster import BROKERS, KafkaCluster
from tests.chaos.cluster_rounds import EVERY_TROUBLE, play_on_cluster
from tests.chaos.network import DELAYED, TO_BROKER, Trouble
from tests.chaos.rounds import Scene

ORDERS = 2_800
RECORDS_A_BATCH = 100
PATIENCE = 30.0


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Orders in three brokers."""
    directory = tmp_path_factory.mktemp("chaos")
    with KafkaCluster(directory / "cluster") as cluster:
        yield Scene.set(cluster, directory, ORDERS, RECORDS_A_BATCH)


def test_is_exact_whatever_becomes_of_brokers_and_network(scene: Scene) -> None:
    outcome = play_on_cluster(scene, f"{EVERY_TROUBLE}-{random.SystemRandom().randrange(1_000_000)}")
    assert not outcome.problems, outcome


def test_a_leader_that_does_not_know_yet_that_it_was_replaced_is_not_believed(scene: Scene) -> None:
    """It stood still meanwhile: what it takes for the last commit is not, and its batches would run again."""
    cluster, name = scene.kafka, "replaced"
    assert isinstance(cluster, KafkaCluster)
    cluster.await_whole()
    topic = commits_topic(name)
    Topics(scene.settings).create([TopicSpec(topic, 1, replication_factor=BROKERS)])
    TransactionalCommitter(scene.settings, name).commit(Outputs(), _record(1), {})
    # Who stops between a commit and its markers keeps the next transaction waiting.
    Topics(scene.settings).await_committed({topic: 1}, PATIENCE)
    replaced = cluster.leader_of(topic)
    cluster.stop(replaced)
    try:
        cluster.await_without(replaced)
        others = ClientSettings(cluster.servers(broker for broker in range(BROKERS) if broker != replaced))
        committer = TransactionalCommitter(others, name)
        committer.commit(Outputs(), _record(2), {})
        # Who asks all of them may happen to ask this one first.
        committer._settings = ClientSettings(f"{HOST}:{cluster.network.ports[replaced]}")
        cluster.network.disturb(Trouble(DELAYED, TO_BROKER), [replaced])
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(committer.last)
            cluster.network.await_hit()
            cluster.go_on(replaced)
            assert asked.result() == _record(2)
    finally:
        cluster.network.heal()
        cluster.go_on(replaced)


@pytest.mark.parametrize("kind", [TransactionalCommitter, PlainCommitter])
def test_nor_is_it_believed_about_the_end_of_a_changelog(scene: Scene, kind: type[TransactionalCommitter]) -> None:
    """A store that is rebuilt up to there would lack what was committed since."""
    cluster, name = scene.kafka, f"replaced-changelog-{kind.__name__}"
    assert isinstance(cluster, KafkaCluster)
    cluster.await_whole()
    changelog = f"{name}-counts-changelog"
    specs = [TopicSpec(topic, 1, replication_factor=BROKERS) for topic in (commits_topic(name), changelog)]
    Topics(scene.settings).create(specs)
    kind(scene.settings, name).commit(_changes(changelog, 1), _record(1), {})
    Topics(scene.settings).await_committed({changelog: 1, commits_topic(name): 1}, PATIENCE)
    replaced = cluster.leader_of(changelog)
    cluster.stop(replaced)
    try:
        cluster.await_without(replaced)
        others = ClientSettings(cluster.servers(broker for broker in range(BROKERS) if broker != replaced))
        committer = kind(others, name)
        ends = ChangelogEnds(committer.least_ends([(changelog, 0)]), {0: [changelog]}, committer.marker)
        for batch in (2, 3):
            outputs = _changes(changelog, batch)
            committer.commit(outputs, _record(batch), {})
            ends.add(outputs)
        at_least = ends.of(["0_0"])
        settings = ClientSettings(f"{HOST}:{cluster.network.ports[replaced]}")
        changelogs = Changelogs(
            [StoreSpec("counts", StoreKind.KEY_VALUE)],
            {"counts": changelog},
            0,
            KafkaReader(settings, name),
            Topics(settings),
            at_least,
        )
        cluster.network.disturb(Trouble(DELAYED, TO_BROKER), [replaced])
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(_rebuilt, changelogs)
            cluster.network.await_hit()
            cluster.go_on(replaced)
            assert asked.result() == {b"key": b"3"}
        assert at_least == Topics(others).ends([(changelog, 0)], committed=False), "all is counted"
    finally:
        cluster.network.heal()
        cluster.go_on(replaced)


def _changes(changelog: str, batch: int) -> Outputs:
    writer = ParcelWriter()
    writer.place(DRIVER, 0, changelog).append((0, 1, b"key", str(batch).encode(), NO_HEADERS))
    return Outputs(list(writer.take()))


def _rebuilt(changelogs: Changelogs) -> dict[bytes, bytes]:
    """What a store has."""
    found: dict[bytes, bytes] = {}
    for changes in changelogs.read(lambda store: MemoryStore()):
        found |= {key: value or b"" for key, value in changes["counts"].entries.items()}
    return found


def _record(batch: int) -> CommitRecord:
    return CommitRecord(batch, f"token-{batch}", {}, {}, {}, {}, Fingerprint({}, {}, {}))
