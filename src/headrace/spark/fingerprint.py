"""What of a topology its state depends on, kept with each commit and compared at the next start."""

from __future__ import annotations

import msgspec

from headrace.kafka.partitions import PartitionPlan
from headrace.topology import Topology
from headrace.topology.nodes import ProcessorNode


class Fingerprint(msgspec.Struct, frozen=True):
    """What of a topology its state depends on."""

    stores: dict[str, str]
    """Kind by name. Global tables are not among them: they are read from their topics."""
    homes: dict[str, int]
    """The sub-topology of each store."""
    tasks: dict[str, int]
    """How many tasks each sub-topology with stores has."""


def fingerprint(topology: Topology, plan: PartitionPlan) -> Fingerprint:
    """The fingerprint of a topology on topics of these partitions."""
    stores = {name: spec.kind.value for name, spec in topology.stores.items() if not spec.is_global}
    homes = {
        store: group.id
        for group in topology.subtopologies()
        if not group.is_global
        for name in group.nodes
        if isinstance(node := topology.nodes[name], ProcessorNode)
        for store in node.stores
        if store in stores
    }
    tasks = {str(group): count for group, count in plan.tasks.items() if group in homes.values()}
    return Fingerprint(stores, homes, tasks)


def differences(before: Fingerprint, now: Fingerprint) -> list[str]:
    """What keeps state of one topology from going on with another."""
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
    return changes
