"""The stores of an application at its last commit: as its working copies have them, and as the changelogs give them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from headrace import Topology
from headrace.kafka.clients import ClientSettings
from headrace.kafka.topics import Topics
from headrace.serdes.forms.timestamped import pack_timestamped
from headrace.spark.commit_record import CommitRecord, TaskState, last_commit
from headrace.spark.reader import KafkaReader
from headrace.spark.rebuild import Changelogs
from headrace.spark.working_copy import Readers, WorkingCopy
from headrace.state.changes import Changes
from tests.chaos.orders import STORES, Expected

_SEGMENT_BYTES = {"revenue": 0, "unpaid": 0, "windows": 8}
"""How many bytes of a store's keys name the segment; a changelog has none."""

Entries = dict[str, dict[bytes, bytes]]
"""By store, what it has."""


class _AnotherVersion(Exception):
    """The working copy does not stand at the last commit."""


def compare_stores(
    settings: ClientSettings,
    application_id: str,
    topology: Topology,
    copies: Path,
    some_kept: bool,
    expected: Expected,
) -> list[str]:
    """What is wrong with the stores, rebuilt from the changelogs and as the working copies have them.

    Working copies that do not stand at the last commit count for nothing, as for the application itself; there must be
    others if `some_kept`.
    """
    record = last_commit(settings, application_id)
    assert record is not None, f"{application_id} has committed nothing"
    wanted = {
        store: {key: pack_timestamped(*last) for key, (*_, last) in updates.items() if last[0] is not None}
        for store, updates in expected.changelogs.items()
    }
    rebuilt = {task: _rebuilt(settings, application_id, topology, record, task) for task in record.tasks}
    problems = []
    for store in STORES:
        found = {key: value for task in rebuilt.values() for key, value in task.get(store, {}).items()}
        if found != wanted[store]:
            problems.append(
                f"{application_id}: store {store} rebuilt from its changelog {_wrong(found, wanted[store])}"
            )
    kept = _kept(copies, record)
    if some_kept and not kept:
        problems.append(f"{application_id}: no working copy stands at the last commit")
    return problems + [
        f"{application_id}: store {store} in the working copy of {task} {_wrong(entries, rebuilt[task][store])}"
        for task, stores in kept.items()
        for store, entries in stores.items()
        if entries != rebuilt[task][store]
    ]


def _wrong(found: Mapping[bytes, bytes], wanted: Mapping[bytes, bytes]) -> str:
    wrong = sum(found.get(key) != wanted.get(key) for key in found.keys() | wanted.keys())
    return f"has {len(found)} entries, {wrong} of them wrong"


def _rebuilt(
    settings: ClientSettings, application_id: str, topology: Topology, record: CommitRecord, task: str
) -> Entries:
    """A task's stores as a machine without its working copy gets them."""
    partition = int(task.partition("_")[2])
    state = record.tasks[task]
    names = _stores_of(record, task)
    specs = [topology.stores[name] for name in names]
    topics = {name: f"{application_id}-{name}-changelog" for name in names}
    reader = KafkaReader(settings, "stores")
    changelogs = Changelogs(specs, topics, partition, reader, Topics(settings), {})
    with tempfile.TemporaryDirectory() as directory:
        try:
            return _entries(Path(directory), names, state, changelogs)
        finally:
            reader.close()


def _kept(copies: Path, record: CommitRecord) -> dict[str, Entries]:
    """By task the stores of those working copies that stand at the last commit."""
    found: dict[str, Entries] = {}
    for task, state in record.tasks.items():
        if (copies / task).exists():
            try:
                found[task] = _entries(copies / task, _stores_of(record, task), state, None)
            except _AnotherVersion:
                continue
    return found


def _entries(directory: Path, names: Iterable[str], state: TaskState, changelogs: Changelogs | None) -> Entries:
    """The stores of a working copy at a version; read from the changelogs if it has another and there are some."""

    def rebuild(stores: Readers) -> Iterator[Changes]:
        if changelogs is None:
            raise _AnotherVersion
        return changelogs.read(stores)

    copy = WorkingCopy(directory, names)
    try:
        copy.bring_to(state.version, rebuild)
        with copy.read(state.facts) as overlays:
            return {
                name: {key[_SEGMENT_BYTES[name] :]: value for key, value in overlay.range(None, None)}
                for name, overlay in overlays.items()
            }
    finally:
        copy.close()


def _stores_of(record: CommitRecord, task: str) -> list[str]:
    group = int(task.partition("_")[0])
    return [store for store, home in record.topology.homes.items() if home == group]
