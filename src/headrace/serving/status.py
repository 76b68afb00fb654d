"""How an instance does, as it tells its peers."""

from __future__ import annotations

import msgspec

from headrace.serving.instance import Instance


class RestoringPartition(msgspec.Struct):
    """A partition that is not up to date yet."""

    store: str
    partition: int
    records_left: int | None
    eta_seconds: float | None


class InstanceStatus(msgspec.Struct):
    """The state of an instance."""

    state: str
    lag: int
    restoring: list[RestoringPartition] = []
    trouble: str | None = None
    """What keeps it from being up to date."""


def status_of(instance: Instance) -> InstanceStatus:
    """The instance's state now."""
    restoring = [
        RestoringPartition(each.id.store, each.id.partition, each.records_left, each.eta_seconds)
        for each in instance.restoring()
    ]
    return InstanceStatus(instance.state, instance.lag(), restoring, instance.trouble)
