"""Who has what: the answers of `metadata_for_key` and `metadata_for_all_instances`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.serving.instance import Instance
from headrace.serving.queries import NOT_HERE, Refusal
from headrace.serving.reading import UnavailableError


@dataclass(frozen=True)
class KeyMetadata:
    """The instance that a key belongs to."""

    host: str
    port: int
    partition: int
    standbys: tuple[str, ...] = ()


@dataclass(frozen=True)
class InstanceMetadata:
    """An instance, its partitions by store, and whether it runs the pipeline."""

    host: str
    port: int
    partitions: Mapping[str, tuple[int, ...]]
    is_leader: bool


def metadata_for_partition(instance: Instance, store: str, partition: int) -> KeyMetadata:
    """The owner of a partition; UnavailableError while there is none."""
    if instance.stores[store].is_global and instance.address is not None:
        return KeyMetadata(*split_address(instance.address), partition)
    candidates = instance.candidates(store, partition)
    if not candidates:
        refusal = Refusal(NOT_HERE, "no instance has the partition at the moment")
        raise UnavailableError(store, {partition: refusal})
    return KeyMetadata(*split_address(candidates[0]), partition, tuple(candidates[1:]))


def metadata_for_all(instance: Instance) -> list[InstanceMetadata]:
    """Every instance that is there."""
    names = {store.topic: name for name, store in instance.stores.items()}
    found = []
    for member in instance.view.members:
        partitions: dict[str, tuple[int, ...]] = {}
        for topic, partition in sorted(member.partitions):
            if topic in names:
                partitions[names[topic]] = (*partitions.get(names[topic], ()), partition)
        host, port = split_address(member.address)
        found.append(InstanceMetadata(host, port, partitions, member.address == instance.view.leader))
    return found


def split_address(address: str) -> tuple[str, int]:
    """Host and port."""
    host, _, port = address.rpartition(":")
    return host, int(port)
