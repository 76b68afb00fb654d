"""Compares the topology with the one its checkpoint was made by, before anything is touched."""

from __future__ import annotations

import msgspec

from headrace.errors import TopologyError
from headrace.kafka.partitions import PartitionPlan
from headrace.spark.file_systems import FileDirectory
from headrace.topology import Topology
from headrace.topology.nodes import ProcessorNode


class Fingerprint(msgspec.Struct):
    """What of a topology its state depends on."""

    stores: dict[str, str]
    """Kind by name."""
    homes: dict[str, int]
    """The sub-topology of each store that is not global."""
    tasks: dict[str, int]
    """How many tasks each sub-topology has, of those that keep something: global tables are kept by every task."""
    global_stores: list[str]


def fingerprint(topology: Topology, plan: PartitionPlan) -> Fingerprint:
    """The fingerprint of a topology on topics of these partitions."""
    stores = {name: spec.kind.value for name, spec in topology.stores.items()}
    global_stores = [name for name, spec in topology.stores.items() if spec.is_global]
    homes = {
        store: group.id
        for group in topology.subtopologies()
        if not group.is_global
        for name in group.nodes
        if isinstance(node := topology.nodes[name], ProcessorNode)
        for store in node.stores
    }
    tasks = {str(group): n for group, n in plan.tasks.items() if global_stores or group in homes.values()}
    return Fingerprint(stores, homes, tasks, global_stores)


_FILE = "topology.json"


def check_compatible(directory: FileDirectory, topology: Topology, plan: PartitionPlan) -> None:
    """Raises where the state in the directory cannot go on with this topology; else keeps its fingerprint."""
    now = fingerprint(topology, plan)
    content = directory.read(_FILE)
    if content is not None:
        before = msgspec.json.decode(content, type=Fingerprint)
        changes = _changes(before, now)
        if changes:
            listed = "\n".join(f"  - {change}" for change in changes)
            raise TopologyError(
                f"The checkpoint in {directory.location} was made by another topology:\n{listed}\n"
                "Nothing was touched. Go on with the old topology, give the new one another application_id, "
                "or take the application back to the beginning with: headrace reset"
            )
    described = msgspec.json.encode(now)
    if described != content:
        directory.remove(_FILE)
        directory.write(_FILE, described)


def _changes(before: Fingerprint, now: Fingerprint) -> list[str]:
    changes = []
    for name, kind in before.stores.items():
        if name not in now.stores:
            changes.append(f"store {name} ({kind}) is gone")
        elif now.stores[name] != kind:
            changes.append(f"store {name} was a {kind} store and is a {now.stores[name]} store now")
    for name, home in before.homes.items():
        if now.homes.get(name, home) != home:
            changes.append(f"store {name} was in sub-topology {home} and is in sub-topology {now.homes[name]} now")
    for group, count in before.tasks.items():
        if now.tasks.get(group, count) != count:
            changes.append(f"sub-topology {group} had {count} tasks and has {now.tasks[group]} now")
    if before.global_stores:
        for group in sorted(now.tasks.keys() - before.tasks.keys()):
            changes.append(f"sub-topology {group} is new and would not have what global tables have read so far")
    return changes
