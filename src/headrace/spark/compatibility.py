"""Compares the topology with the one its checkpoint was made by, before anything is touched."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headrace.errors import TopologyError
from headrace.kafka.partitions import PartitionPlan
from headrace.topology import Topology


class Fingerprint(msgspec.Struct):
    """What of a topology its state depends on."""

    stores: dict[str, str]
    """Kind by name."""
    tasks: dict[str, int]
    """By the stores of a sub-topology, how many tasks it has."""


def fingerprint(topology: Topology, plan: PartitionPlan) -> Fingerprint:
    """The fingerprint of a topology on topics of these partitions."""
    stores = {name: spec.kind.value for name, spec in topology.stores.items()}
    tasks = {f"sub-topology {group}": count for group, count in plan.tasks.items()}
    return Fingerprint(stores, tasks)


def check_compatible(directory: Path, topology: Topology, plan: PartitionPlan) -> None:
    """Raises where the state in the directory cannot go on with this topology; else keeps its fingerprint."""
    path = directory / "topology.json"
    now = fingerprint(topology, plan)
    if path.exists():
        before = msgspec.json.decode(path.read_bytes(), type=Fingerprint)
        changes = _changes(before, now)
        if changes:
            listed = "\n".join(f"  - {change}" for change in changes)
            raise TopologyError(
                f"The checkpoint in {directory} was made by another topology:\n{listed}\n"
                "Nothing was touched. Go on with the old topology, give the new one another application_id, "
                "or take the application back to the beginning with: headrace reset"
            )
    directory.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(now))


def _changes(before: Fingerprint, now: Fingerprint) -> list[str]:
    changes = []
    for name, kind in before.stores.items():
        if name not in now.stores:
            changes.append(f"store {name} ({kind}) is gone")
        elif now.stores[name] != kind:
            changes.append(f"store {name} was a {kind} store and is a {now.stores[name]} store now")
    for group, count in before.tasks.items():
        if now.tasks.get(group) != count:
            changes.append(f"{group} had {count} tasks and has {now.tasks.get(group, 0)} now")
    return changes
