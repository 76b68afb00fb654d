"""What earlier versions have left in Kafka is read by this one: an upgrade goes on as if nothing had happened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from headrace import Streams, StreamsConfig
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec
from headrace.spark.commit_record import last_commit, unpack_commit
from headrace.spark.progress import BatchProgress
from headrace.topology.stores import StoreKind
from tests.upgrades.application import GLOBAL, ONLY_LAST, OUTPUTS, Expected, Written, inputs, topology
from tests.upgrades.kept import Kept, produce, read_committed
from tests.upgrades.write import LARGE_COMMIT, LARGE_TASKS, ROUNDS

HERE = Path(__file__).parent
VERSIONS = sorted(path.parent.name for path in HERE.glob("*/state.json"))
BUFFERS = (StoreKind.SUPPRESS_BUFFER, StoreKind.STREAM_BUFFER)
"""Stores whose entries tell which partition a record came from: a driver has but one."""

Updates = dict[bytes | None, list[tuple[bytes | None, int | None, Any]]]
"""By key what was written: value, timestamp and headers."""


def test_there_is_something_to_upgrade_from() -> None:
    assert "0.1" in VERSIONS
    assert {spec.kind for spec in topology("any").stores.values()} == set(StoreKind)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_application_goes_on_with_what_an_earlier_version_left(
    version: str, embedded_kafka: EmbeddedKafka, spark: SparkContext, tmp_path: Path
) -> None:
    kept = Kept.read(HERE / version)
    application_id = kept.application_id
    settings = ClientSettings(embedded_kafka.bootstrap_servers)
    outputs = [f"{application_id}.{name}" for name in OUTPUTS]
    kept.load(settings)
    Topics(settings).create(TopicSpec(name, 2) for name in outputs)
    new = inputs(application_id, ROUNDS)
    produce(settings, new)

    expected = Expected(application_id)
    expected.process(old_inputs(kept))
    before = [len(driver.produced()) for driver in expected.drivers]
    expected.process(new)

    config = StreamsConfig(
        application_id=application_id,
        bootstrap_servers=embedded_kafka.bootstrap_servers,
        state_dir=str(tmp_path),
        cache_max_bytes=0,
    )
    told: list[BatchProgress] = []
    application = Streams(topology(application_id), config)
    application.on_progress(told.append)
    with application:
        application.process_all_available()
        check_stores(application, expected)

    check_outputs(read_committed(settings, outputs), expected, before, application_id)
    check_changelogs(settings, expected, application_id)
    lag = Topics(settings).lag(application_id, sources(kept))
    assert {each.topic for each in lag if each.lag} == {f"{application_id}.{GLOBAL}"}
    # Working copies are caches of a machine: one that has none rebuilds them from the changelogs.
    changelogs = by_key(one for one in kept.records if one.topic.endswith("-changelog"))
    assert sum(progress.rebuilt_records for progress in told) >= sum(map(len, changelogs.values())) > 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_large_commit_record_of_an_earlier_version_is_read(version: str) -> None:
    packed = (HERE / version / LARGE_COMMIT).read_bytes()
    assert not packed.startswith(b"{")
    record = unpack_commit(packed, "commits")
    assert (record.batch, record.token) == (17, "token")
    assert record.positions() == {("source", number): 7 for number in range(LARGE_TASKS)}
    assert {task: state.version for task, state in record.tasks.items()} == {
        f"0_{number}": f"version {number}" for number in range(LARGE_TASKS)
    }


def sources(kept: Kept) -> list[str]:
    """The topics that the application reads and does not write. A global table is not read as a member of the group."""
    return [name for name in kept.partitions if name.startswith(f"{kept.application_id}.")]


def old_inputs(kept: Kept) -> list[Written]:
    """What the application was fed with, in the order in which it took it, which the inputs know."""
    known = {
        (one.topic, one.partition, one.key, one.value, one.timestamp)
        for one in kept.records
        if one.topic in sources(kept)
    }
    records = [one for number in range(ROUNDS) for one in inputs(kept.application_id, number)]
    assert {(one.topic, one.partition, one.key, one.value, one.timestamp) for one in records} == known
    return records


def check_outputs(found: list[Written], expected: Expected, before: list[int], application_id: str) -> None:
    """Every update that is new, of every key, in its order."""
    results, by_driver = by_key(found), by_key(expected.written(before))
    for name in OUTPUTS:
        topic = f"{application_id}.{name}"
        assert by_driver[topic], f"nothing new is expected in {name}"
        if name in ONLY_LAST:
            assert last_values(results[topic]) == last_values(by_driver[topic]), name
        else:
            assert results[topic] == by_driver[topic], name


def check_changelogs(settings: ClientSettings, expected: Expected, application_id: str) -> None:
    """The last value of every key of every store."""
    record = last_commit(settings, application_id)
    assert record is not None
    found, wanted = by_key(read_committed(settings, record.changelog_ids)), by_key(expected.written())
    stores = topology(application_id).stores
    for topic in record.changelog_ids:
        store = topic.removeprefix(f"{application_id}-").removesuffix("-changelog")
        there, entries = live(found.get(topic, {})), live(wanted[topic])
        if stores[store].kind in BUFFERS:
            assert there.keys() == entries.keys(), store
        else:
            assert there == entries, store


def check_stores(application: Streams, expected: Expected) -> None:
    """What is served of stores."""
    for name in ("last", "counts", "placed", "invoices", "persons", "places"):
        found = dict(application.store(name).all())
        assert found == {key: value for driver in expected.drivers for key, value in driver.store(name).all()}, name
        assert found, name
    for name in ("windows", "trail"):
        windows = dict(application.store(name).fetch_all())
        assert windows == dict(entry for driver in expected.drivers for entry in driver.store(name).fetch_all(0, 2**62))


def by_key(records: Iterable[Written]) -> Mapping[str, Updates]:
    """By topic and key what was written."""
    found: dict[str, Updates] = {}
    for one in records:
        updates = found.setdefault(one.topic, {}).setdefault(one.key, [])
        updates.append((one.value, one.timestamp, one.headers))
    return found


def last_values(updates: Updates) -> dict[bytes | None, bytes | None]:
    return {key: values[-1][0] for key, values in updates.items()}


def live(updates: Updates) -> dict[bytes | None, bytes | None]:
    """The keys that are there, with their values."""
    return {key: value for key, value in last_values(updates).items() if value is not None}
