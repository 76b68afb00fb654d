"""How a topology is laid out on Spark: which sub-topology runs in which stage of a batch.

A sub-topology that reads an internal topic runs in a later stage than the one that writes it, and the rows between
them go through a shuffle of the same batch. Where sub-topologies write to each other in a circle, as a foreign-key
join does, one of the internal topics is a real one: its rows come back with a later batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.kafka.partitions import PartitionPlan
from headrace.topology import Topology
from headrace.topology.nodes import SinkNode, SourceNode
from headrace.topology.topology import Subtopology


@dataclass(frozen=True)
class Layout:
    """The stages of a batch. Topics have the application's prefix."""

    stages: tuple[tuple[int, ...], ...]
    """The sub-topologies of each stage."""
    readers: Mapping[str, int]
    """By topic, the sub-topology that reads it; a pattern's topics are added as they appear."""
    shuffled: frozenset[str]
    """Internal topics whose rows stay inside the batch."""
    looped: frozenset[str]
    """Internal topics whose rows come back with a later batch."""
    global_topics: frozenset[str]
    partitions: Mapping[str, int]
    """By topic that a task reads or that is internal."""
    tasks: Mapping[int, int]
    """By sub-topology, how many partitions it has."""

    @property
    def width(self) -> int:
        """How many partitions a stage has."""
        return max(self.tasks.values(), default=1)

    def stage_of(self, subtopology: int) -> int:
        """The stage that a sub-topology runs in."""
        return next(number for number, stage in enumerate(self.stages) if subtopology in stage)


def lay_out(topology: Topology, plan: PartitionPlan, application_id: str) -> Layout:
    """The layout of a topology whose topics have these partitions."""

    def full(topic: str) -> str:
        return f"{application_id}-{topic}" if topic in topology.internal_topics else topic

    groups = [group for group in topology.subtopologies() if not group.is_global]
    readers = {full(topic): group.id for group in groups for topic in _read(topology, group)}
    writes = {
        group.id: [full(t) for t in _written(topology, group) if t in topology.internal_topics] for group in groups
    }
    ids = [group.id for group in groups]
    looped = _topics_that_loop(ids, writes, readers)
    depths = _longest_paths(ids, writes, readers, looped)
    stages = tuple(
        tuple(group for group in depths if depths[group] == depth)
        for depth in range(max(depths.values(), default=0) + 1)
    )
    internal = {full(topic) for topic in topology.internal_topics}
    global_topics = frozenset(
        topic for group in topology.subtopologies() if group.is_global for topic in _read(topology, group)
    )
    partitions = {full(topic): count for topic, count in plan.sources.items()}
    return Layout(
        stages,
        readers,
        frozenset(internal - looped),
        frozenset(looped),
        global_topics,
        partitions,
        dict(plan.tasks),
    )


def _topics_that_loop(groups: list[int], writes: Mapping[int, list[str]], readers: Mapping[str, int]) -> set[str]:
    """The topics that lead back to a sub-topology on the way to the one that writes them."""
    looped: set[str] = set()
    done: set[int] = set()

    def visit(group: int, path: frozenset[int]) -> None:
        for topic in writes[group]:
            reader = readers.get(topic)
            if reader in path:
                looped.add(topic)
            elif reader is not None and reader not in done:
                visit(reader, path | {reader})
        done.add(group)

    for group in groups:
        if group not in done:
            visit(group, frozenset({group}))
    return looped


def _longest_paths(
    groups: list[int], writes: Mapping[int, list[str]], readers: Mapping[str, int], looped: set[str]
) -> dict[int, int]:
    """How many shuffles lie before each sub-topology."""
    depths = dict.fromkeys(groups, 0)
    for _ in groups:
        for group in groups:
            for topic in writes[group]:
                reader = readers.get(topic)
                if reader is not None and topic not in looped:
                    depths[reader] = max(depths[reader], depths[group] + 1)
    return depths


def _read(topology: Topology, group: Subtopology) -> list[str]:
    nodes = (topology.nodes[name] for name in group.nodes)
    return [topic for node in nodes if isinstance(node, SourceNode) for topic in node.topics]


def _written(topology: Topology, group: Subtopology) -> list[str]:
    nodes = (topology.nodes[name] for name in group.nodes)
    return [node.topic for node in nodes if isinstance(node, SinkNode) and isinstance(node.topic, str)]
