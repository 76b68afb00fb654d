"""What an application has left behind, and whether it is what an undisturbed run leaves."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition

from headrace import Topology
from headrace.kafka.clients import ClientSettings
from tests.chaos.orders import OUTPUTS, PARTITIONS, STORES, Expected, Update, Updates
from tests.chaos.stores import compare_stores

_MANY = 10_000
_SHORT_SECONDS = 0.2
_PATIENCE_SECONDS = 300.0


def differences(
    settings: ClientSettings,
    application_id: str,
    topology: Topology,
    copies: Path,
    some_kept: bool,
    expected: Expected,
    every_update: bool,
) -> list[str]:
    """What is not as it must be: in the outputs, in the changelogs and in the stores.

    `copies` has the working copies of the last process, which must not run any more; `some_kept` says that nobody else
    has used them.
    """
    outputs = {name: f"{application_id}.{name}" for name in OUTPUTS}
    changelogs = {name: f"{application_id}-{name}-changelog" for name in STORES}
    found = read_committed(settings, [*outputs.values(), *changelogs.values()])
    problems = []
    if open_transactions(settings, found):
        problems.append(f"{application_id}: a transaction was left open")
    for name, topic in outputs.items():
        problems += _compare(topic, found[topic], expected.outputs[name], name != "windows", every_update)
    for name, topic in changelogs.items():
        problems += _compare_last(topic, found[topic], expected.changelogs[name], every_update)
    return problems + compare_stores(settings, application_id, topology, copies, some_kept, expected)


def read_committed(settings: ClientSettings, topics: Iterable[str]) -> dict[str, Updates]:
    """The committed records of topics, by key; a key must stay in its partition."""
    consumer = Consumer(
        settings.consumer(
            **{
                "group.id": f"reader-{uuid.uuid4().hex}",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
    )
    places = [TopicPartition(topic, partition, 0) for topic in topics for partition in range(PARTITIONS)]
    found: dict[str, Updates] = {place.topic: {} for place in places}
    homes: dict[tuple[str, bytes], int] = {}
    consumer.assign(places)
    left, silent = len(places), 0.0
    while left:
        messages = consumer.consume(_MANY, timeout=_SHORT_SECONDS)
        silent = 0.0 if messages else silent + _SHORT_SECONDS
        assert silent < _PATIENCE_SECONDS, "the topics do not end"
        for message in messages:
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left -= 1
                continue
            topic, key = message.topic(), message.key() or b""
            home = homes.setdefault((topic, key), message.partition())
            assert home == message.partition(), f"{key!r} of {topic} is in partitions {home} and {message.partition()}"
            found[topic].setdefault(key, []).append((message.value(), message.timestamp()[1]))
    consumer.close()
    return found


def _compare(topic: str, found: Updates, expected: Updates, timed: bool, every_update: bool) -> list[str]:
    """Every update of every key; with caching those that were shown, in their order, up to the last.

    Behind a repartition the order of keys that meet is open, and so are the timestamps on the way to the last.
    """
    problems = _compare_last(topic, found, expected, every_update)
    for key, updates in expected.items():
        shown, all_updates = found.get(key, []), updates
        if not timed:
            shown, all_updates = _values(shown), _values(all_updates)
        if every_update and shown != all_updates:
            problems.append(f"{topic}: {key!r} has {len(shown)} updates, not the {len(all_updates)} expected")
        elif not _is_part(shown, all_updates):
            problems.append(f"{topic}: {key!r} has updates that are twice, out of order or wrong")
    return problems


def _compare_last(topic: str, found: Updates, expected: Updates, every_update: bool) -> list[str]:
    """The last update of every key. With caching, what comes and goes between two commits leaves no tombstone."""
    problems = [f"{topic}: {key!r} should not be there" for key in found.keys() - expected.keys()]
    for key, updates in expected.items():
        last = found.get(key, [(None, None)])[-1]
        is_gone = not every_update and last[0] is None and updates[-1][0] is None
        if last != updates[-1] and not is_gone:
            problems.append(f"{topic}: {key!r} ends with {last}, not with {updates[-1]}")
    return problems


def _values(updates: list[Update]) -> list[Update]:
    return [(value, None) for value, _ in updates]


def _is_part(shown: list[Update], updates: list[Update]) -> bool:
    """Whether all that is shown is among the updates, in the same order."""
    rest = iter(updates)
    return all(update in rest for update in shown)


def open_transactions(settings: ClientSettings, topics: Iterable[str]) -> bool:
    """Whether a read_committed reader sees less of the topics than any other."""
    places = [TopicPartition(topic, partition) for topic in topics for partition in range(PARTITIONS)]
    return _ends(settings, places, "read_committed") != _ends(settings, places, "read_uncommitted")


def _ends(settings: ClientSettings, places: list[TopicPartition], isolation: str) -> list[int]:
    ours = {"group.id": "ends", "isolation.level": isolation, "enable.auto.commit": False}
    consumer = Consumer(settings.consumer(**ours))
    ends = [consumer.get_watermark_offsets(place, timeout=_PATIENCE_SECONDS)[1] for place in places]
    consumer.close()
    return ends
