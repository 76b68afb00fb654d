"""What an application may lose without losing data: its group's offsets, its files, a source topic under its feet."""

from __future__ import annotations

import itertools
import re
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark import SparkContext

from headrace import (
    Consumed,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    Streams,
    StreamsBuilder,
    StreamsConfig,
    TimeWindows,
    Topology,
)
from headrace.errors import EnvironmentFailed, FencedError, KafkaAway
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.internal_topics import commits_topic
from headrace.kafka.topics import Topics, TopicSpec
from headrace.spark.commit import PlainCommitter, TransactionalCommitter
from headrace.spark.commit_record import CommitRecord, last_commit
from headrace.spark.fingerprint import Fingerprint
from headrace.spark.parcels import DRIVER, ParcelWriter
from headrace.spark.results import Outputs
from headrace.spark.worker import host_directory
from headrace.spark.working_copy import WorkingCopy
from tests.spark.lab import await_file, await_that, held_up
from tests.spark.running import read_all

TEXT, LONG = Serdes.string(), Serdes.long()
PATIENCE = 300.0
_MINUTE_MS = 60_000


class Counting:
    """An application that counts the records of each key; every count is written."""

    def __init__(self, servers: str, directory: Path) -> None:
        self.application_id = f"losses-{uuid.uuid4().hex[:8]}"
        self.source, self.results = f"{self.application_id}.in", f"{self.application_id}.out"
        self.settings = ClientSettings(servers)
        self.topics = Topics(self.settings)
        self.directory = directory
        self.topics.create([TopicSpec(self.source, 1), TopicSpec(self.results, 1)])

    def started(self, topology: Callable[[str, str], Topology] | None = None, **settings: Any) -> Streams:
        config = StreamsConfig(
            application_id=self.application_id,
            bootstrap_servers=self.settings.bootstrap_servers,
            state_dir=str(self.directory),
            cache_max_bytes=0,
            **settings,
        )
        return Streams((topology or counting)(self.source, self.results), config)

    def run(self, records: int, **settings: Any) -> None:
        """Runs until so many new records are processed."""
        with self.started(**settings) as application:
            self.send(["k"] * records)
            application.process_all_available()

    def send(self, keys: list[str], start: int | None = None, topic: str | None = None) -> None:
        """Writes a record for each key, a second apart."""
        start = int(time.time() * 1000) - _MINUTE_MS if start is None else start
        producer = Producer(self.settings.producer(enable_idempotence=True))
        for number, key in enumerate(keys):
            producer.produce(topic or self.source, f"v{number}", key, timestamp=start + 1000 * number)
        producer.flush()

    def counts(self) -> list[int | None]:
        """Every count that was written."""
        return [LONG.deserialize(value) for _, value, _, _ in read_all(self.settings, self.results)]


def counting(source: str | re.Pattern[str], results: str) -> Topology:
    builder = StreamsBuilder()
    counts = builder.stream(source, Consumed(key=TEXT, value=TEXT)).group_by_key().count("counts")
    counts.to_stream().to(results, Produced(key=TEXT, value=LONG))
    return builder.build()


@pytest.fixture
def application(embedded_kafka: EmbeddedKafka, spark: SparkContext, tmp_path: Path) -> Counting:
    return Counting(embedded_kafka.bootstrap_servers, tmp_path / "state")


def up_to(count: int) -> list[int | None]:
    return list(range(1, count + 1))


def test_an_application_whose_changelog_was_deleted_is_refused(application: Counting) -> None:
    """To go on would be to count from the beginning on the next machine."""
    application.run(3)
    changelog = f"{application.application_id}-counts-changelog"
    application.topics.delete([changelog])
    with pytest.raises(EnvironmentFailed, match=f"{changelog} was deleted since the last commit"):
        application.started().start()
    assert changelog not in application.topics.describe()


# --- the group's offsets -------------------------------------------------------------------------------------------


def test_it_goes_on_where_it_was_when_the_offsets_of_its_group_are_gone(application: Counting) -> None:
    """Where a group offset was the mark of the last commit, this began anew without an error: the count was 3."""
    application.run(20)
    application.topics.delete_group(application.application_id)
    application.run(3)
    assert application.counts() == up_to(23)


@pytest.mark.acceptance
def test_it_goes_on_where_it_was_when_kafka_has_expired_the_offsets_of_its_group(
    spark: SparkContext, tmp_path: Path
) -> None:
    """The same with nobody's doing: Kafka expires offsets of a group without members, by default after a week."""
    expiring = {"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 1000}
    with EmbeddedKafka(tmp_path / "kafka", port=0, settings=expiring) as kafka:
        application = Counting(kafka.bootstrap_servers, tmp_path / "state")
        application.run(20)
        group, source = application.application_id, [application.source]
        assert application.topics.has_committed(group, source)
        await_that(lambda: not application.topics.has_committed(group, source), "the offsets do not expire", PATIENCE)
        application.run(3)
        assert application.counts() == up_to(23)


def test_it_goes_on_when_kafka_has_forgotten_its_producer(spark: SparkContext, tmp_path: Path) -> None:
    """As it does with one that did nothing for `transactional.id.expiration.ms`, by default a week."""
    forgetful = {
        "transactional.id.expiration.ms": 1000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 500,
        "producer.id.expiration.ms": 1000,
        "producer.id.expiration.check.interval.ms": 500,
    }
    with EmbeddedKafka(tmp_path / "kafka", port=0, settings=forgetful) as kafka:
        application = Counting(kafka.bootstrap_servers, tmp_path / "state")
        with application.started() as running:
            application.send(["k"] * 3)
            running.process_all_available()
            await_that(lambda: forgets(application), "the producer is not forgotten", PATIENCE)
            application.send(["k"] * 3)
            running.process_all_available()
        assert application.counts() == up_to(6)


def forgets(application: Counting) -> bool:
    """Whether Kafka has removed the transactional id of the application."""
    rows = read_all(application.settings, "__transaction_state")
    return any(value is None and application.application_id.encode() in (key or b"") for key, value, _, _ in rows)


# --- its files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["files of the last run", "all files"])
def test_files_that_are_lost_lose_no_record(application: Counting, tmp_path: Path, what: str) -> None:
    """As a machine that goes down may leave it.

    Where batches were told apart by their number alone and a log of offsets was a file, the batch that Kafka had
    committed was taken for the next one: its 30 records were skipped, with a lag of 0 and no error.
    """
    state_dir, before = application.directory, tmp_path / "before"
    application.run(20)
    shutil.copytree(state_dir, before)
    application.run(30)
    shutil.rmtree(state_dir)
    if what == "files of the last run":
        before.rename(state_dir)
    application.run(3)
    assert application.counts() == up_to(53)
    assert all(each.lag == 0 for each in application.topics.lag(application.application_id, [application.source]))


# --- its working copies --------------------------------------------------------------------------------------------


def windows(source: str, results: str) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(source, Consumed(key=TEXT, value=TEXT)).group_by_key()
    size = timedelta(seconds=10)
    hopping = TimeWindows(size=size, advance=timedelta(seconds=5), grace=timedelta(seconds=5))
    counts = grouped.windowed_by(hopping).count(Materialized("store", key=TEXT, value=LONG))
    counts.to_stream().to(results, Produced(key=Serdes.windowed(TEXT, size), value=LONG))
    return builder.build()


def sessions(source: str, results: str) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(source, Consumed(key=TEXT, value=TEXT)).group_by_key()
    gaps = SessionWindows(gap=timedelta(seconds=3), grace=timedelta(seconds=5))
    counts = grouped.windowed_by(gaps).count(Materialized("store", key=TEXT, value=LONG))
    counts.to_stream().to(results, Produced(key=Serdes.session_windowed(TEXT), value=LONG))
    return builder.build()


def versions(source: str, results: str) -> Topology:
    builder = StreamsBuilder()
    store = Materialized.versioned("store", timedelta(seconds=20), key=TEXT, value=TEXT)
    table = builder.table(source, Consumed(key=TEXT, value=TEXT), store)
    table.to_stream().to(results, Produced(key=TEXT, value=TEXT))
    return builder.build()


@pytest.mark.parametrize("topology", [counting, windows, sessions, versions])
def test_stores_that_are_rebuilt_equal_those_that_were_kept(
    embedded_kafka: EmbeddedKafka,
    spark: SparkContext,
    tmp_path: Path,
    topology: Callable[[str, str], Topology],
) -> None:
    start = int(time.time() * 1000) // _MINUTE_MS * _MINUTE_MS - 5 * _MINUTE_MS
    keys = ["a", "b", "a", "c", "a", "a", "b", "d", "d", "a"] * 2
    found: dict[str, Any] = {}
    for case in ("kept", "rebuilt"):
        application = Counting(embedded_kafka.bootstrap_servers, tmp_path / case)
        for part in range(3):
            if case == "rebuilt" and part:
                shutil.rmtree(copies_of(application))
            with application.started(topology) as streams:
                application.send(keys, start + part * _MINUTE_MS // 2)
                streams.process_all_available()
        found[case] = (read_all(application.settings, application.results), entries_of(application, topology))
    assert found["rebuilt"] == found["kept"]


def copies_of(application: Counting) -> Path:
    return Path(host_directory(str(application.directory), application.application_id))


def entries_of(application: Counting, topology: Callable[[str, str], Topology]) -> dict[str, list[tuple[bytes, bytes]]]:
    """What the working copy of the only task has at the last commit."""
    stores = list(topology("in", "out").stores)
    record = last_commit(application.settings, application.application_id)
    assert record is not None
    [(task, state)] = record.tasks.items()
    copy = WorkingCopy(copies_of(application) / task, stores)
    assert not copy.bring_to(state.version, lambda readers: iter(()))
    with copy.read(state.facts) as overlays:
        found = {name: list(overlay.range(None, None)) for name, overlay in overlays.items()}
    copy.close()
    return found


# --- a source topic ------------------------------------------------------------------------------------------------


def create_again(application: Counting) -> None:
    application.topics.delete([application.source])
    application.topics.create([TopicSpec(application.source, 1)])


def test_a_source_topic_that_was_created_again_is_refused(application: Counting) -> None:
    """Where only offsets were kept, those of the old topic were applied to the new one: 5 records were skipped."""
    application.run(5)
    create_again(application)
    application.send(["k"] * 7)
    for _ in range(2):
        with pytest.raises(EnvironmentFailed, match=rf"Topic {application.source} was deleted and created again"):
            application.started().start()
    assert application.counts() == up_to(5)


def test_a_source_topic_that_was_created_again_can_be_read_from_its_beginning(application: Counting) -> None:
    application.run(5)
    create_again(application)
    application.send(["k"] * 7)
    application.run(1, spark={"failOnDataLoss": "false"})
    assert application.counts() == up_to(13)
    application.run(2)
    assert application.counts() == up_to(15)


def test_a_source_topic_that_is_created_again_under_a_running_application_ends_it(application: Counting) -> None:
    with application.started() as streams:
        application.send(["k"] * 5)
        streams.process_all_available()
        create_again(application)
        application.send(["k"] * 7)
        with pytest.raises(EnvironmentFailed, match=rf"Topic {application.source} was deleted and created again"):
            streams.wait(PATIENCE)
    assert application.counts() == up_to(5)


def test_a_batch_is_not_committed_if_its_source_topic_was_created_again_meanwhile(
    application: Counting, tmp_path: Path
) -> None:
    """Who reads a topic that is created again within a moment goes on in the new one: 2 of its records were counted."""

    def counting_slowly(source: str, results: str) -> Topology:
        builder = StreamsBuilder()
        records = builder.stream(source, Consumed(key=TEXT, value=TEXT))
        counts = records.map_values(lambda value: held_up(tmp_path, value)).group_by_key().count("counts")
        counts.to_stream().to(results, Produced(key=TEXT, value=LONG))
        return builder.build()

    with application.started(counting_slowly) as streams:
        producer = Producer(application.settings.producer())
        producer.produce(application.source, "slow", "k")
        producer.flush()
        await_file(tmp_path / "there")
        create_again(application)
        (tmp_path / "go").touch()
        with pytest.raises(EnvironmentFailed, match=rf"Topic {application.source} was deleted and created again"):
            streams.wait(PATIENCE)
    assert application.counts() == []


def test_a_topic_of_a_pattern_may_go(application: Counting) -> None:
    first, second = application.source, f"{application.source}-2"
    application.topics.create([TopicSpec(second, 1)])

    def counting_all(source: str, results: str) -> Topology:
        return counting(re.compile(re.escape(first) + ".*"), results)

    with application.started(counting_all) as streams:
        application.send(["k"])
        application.send(["k"], topic=second)
        streams.process_all_available()
    application.topics.delete([second])
    with application.started(counting_all) as streams:
        application.send(["k"])
        streams.process_all_available()
    assert application.counts() == up_to(3)


# --- another process -----------------------------------------------------------------------------------------------


def test_a_process_that_was_replaced_writes_nothing_more_at_least_once(application: Counting) -> None:
    """Nothing fences a producer without transactions: what it wrote was overtaken by what another had committed."""
    topic = commits_topic(application.application_id)
    application.topics.create([TopicSpec(topic, 1, {"cleanup.policy": "compact"})])
    zombie, successor = (PlainCommitter(application.settings, application.application_id) for _ in range(2))
    assert zombie.last() is None
    zombie.commit(outputs_to(application.results, 1), record(1), {})
    assert successor.last() == record(1)
    successor.commit(outputs_to(application.results, 2), record(2), {})
    with pytest.raises(FencedError, match="has taken over"):
        zombie.commit(outputs_to(application.results, 1), record(3), {})
    successor.commit(outputs_to(application.results, 3), record(4), {})
    assert application.counts() == up_to(3)
    assert last_commit(application.settings, application.application_id) == record(4)
    for committer in (zombie, successor):
        committer.close()


@pytest.mark.parametrize("records", [0, 10, 60_000])
def test_a_process_that_was_replaced_says_so_however_much_it_writes(application: Counting, records: int) -> None:
    """The producer may find out before, while and after it is given the records, and tells each time another way."""
    application.topics.create([TopicSpec(commits_topic(application.application_id), 1)])
    zombie = TransactionalCommitter(application.settings, application.application_id)
    zombie.commit(outputs_to(application.results, 1), record(1), {})
    successor = TransactionalCommitter(application.settings, application.application_id)
    assert successor.last() == record(1)
    with pytest.raises(FencedError, match="has taken over"):
        zombie.commit(outputs_to(application.results, *range(records)), record(2), {})
    successor.commit(outputs_to(application.results, 2), record(3), {})
    assert application.counts() == up_to(2)
    for committer in (zombie, successor):
        committer.close()


def test_a_process_that_starts_while_another_begins_goes_on_with_what_it_finds(
    application: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the other one writes after the look for its commit is no trace of an application that has lost its own."""
    application.run(5)
    looks: list[CommitRecord | None] = [None]

    def look(*arguments: Any, **options: Any) -> CommitRecord | None:
        return looks.pop() if looks else last_commit(*arguments, **options)

    monkeypatch.setattr("headrace.spark.engine.last_commit", look)
    application.run(3)
    assert not looks
    assert application.counts() == up_to(8)


def test_a_commit_before_its_own_is_not_that_of_another_process(
    application: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that stood still while it was replaced tells of it, for a moment, when it goes on."""
    commit, failures, earlier = TransactionalCommitter.commit, [KafkaAway("Kafka does not answer")], [record(0)]

    def commit_or_fail(*arguments: Any) -> None:
        if failures:
            raise failures.pop()
        commit(*arguments)

    def look(*arguments: Any, **options: Any) -> CommitRecord | None:
        return earlier.pop() if earlier else last_commit(*arguments, **options)

    with application.started() as streams:
        application.send(["k"])
        streams.process_all_available()
        monkeypatch.setattr(TransactionalCommitter, "commit", commit_or_fail)
        monkeypatch.setattr("headrace.spark.engine.last_commit", look)
        application.send(["k"])
        streams.process_all_available()
    assert not failures and not earlier
    assert application.counts() == up_to(2)


def test_the_last_commit_of_a_process_that_never_pauses_is_found(application: Counting) -> None:
    """Its topic never comes to an end: whoever reads on until there is nothing more reads for ever."""
    application.topics.create([TopicSpec(commits_topic(application.application_id), 1)])
    committer = TransactionalCommitter(application.settings, application.application_id)
    committer.commit(Outputs(), record(0), {})
    over = threading.Event()

    def commit_on() -> None:
        for batch in itertools.count(1):
            if over.is_set():
                return
            committer.commit(Outputs(), record(batch), {})

    busy = threading.Thread(target=commit_on)
    busy.start()
    try:
        found = [last_commit(application.settings, application.application_id) for _ in range(5)]
    finally:
        over.set()
        busy.join()
        committer.close()
    batches = [each.batch for each in found if each is not None]
    assert len(batches) == 5
    assert batches == sorted(batches)


def record(batch: int) -> CommitRecord:
    return CommitRecord(batch, f"token-{batch}", {}, {}, {}, {}, Fingerprint({}, {}, {}))


def outputs_to(topic: str, *counts: int) -> Outputs:
    writer = ParcelWriter()
    rows = writer.place(DRIVER, 0, topic)
    rows += ((0, 1000, b"k", LONG.serialize(count), ()) for count in counts)
    return Outputs(list(writer.take()))
