"""How a topology is laid out on Spark: which sub-topology runs in which stage of a batch.

A sub-topology that reads an internal topic runs in a later stage than the one that writes it, and the rows between
them go through a shuffle of the same batch. Where sub-topologies write to each other in a circle, as a foreign-key
join does, one of the internal topics is a real one: its rows come back with a later batch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.errors import StreamsError
from headrace.kafka.partitions import PartitionPlan
from headrace.topology import Topology
from headrace.topology.nodes import ProcessorNode, SinkNode, SourceNode
from headrace.topology.operations import Process, TableTransformValues
from headrace.topology.topology import Subtopology

_EARLIEST, _LATEST = -2, -1
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}


@dataclass(frozen=True)
class Layout:
    """The stages of a batch. Topics have the application's prefix."""

    stages: tuple[tuple[int, ...], ...]
    """The sub-topologies of each stage."""
    readers: Mapping[str, int]
    """By topic that is read by its name, the sub-topology that reads it."""
    patterns: Mapping[re.Pattern[str], int]
    """By pattern, the sub-topology that reads the topics it means."""
    shuffled: frozenset[str]
    """Internal topics whose rows stay inside the batch."""
    looped: frozenset[str]
    """Internal topics whose rows come back with a later batch."""
    global_topics: frozenset[str]
    returning: Mapping[str, int]
    """The topics in Kafka that tasks both write and read, with their partitions."""
    partitions: Mapping[str, int]
    """By topic that a task reads or that is internal, and by topic that a partitioner of the user's writes to."""
    tasks: Mapping[int, int]
    """By sub-topology, how many partitions it has."""
    scheduling: frozenset[int]
    """Sub-topologies with processors of the user's, which may ask for punctuations."""
    starting_offsets: str
    """Where the first batch begins to read, in the form of Spark's source."""

    @property
    def width(self) -> int:
        """How many partitions a stage has."""
        return max(self.tasks.values(), default=1)

    def task_for(self, topic: str, partition: int) -> str:
        """The task that reads a partition of a topic of Kafka's; StreamsError where there is none."""
        group = self.readers.get(topic)
        if group is None:
            group = next((group for pattern, group in self.patterns.items() if pattern.fullmatch(topic)), None)
        if group is None:
            raise StreamsError(
                f"Topic {topic} fits a pattern of the topology in Java, which looks for topics, but not in Python. "
                "Write the pattern in a way that means the same in both"
            )
        tasks = self.tasks[group]
        if partition >= tasks:
            raise StreamsError(
                f"Partition {partition} of topic {topic} has no task: sub-topology {group} runs {tasks}, as many as "
                "its largest topic had partitions when the application was started. An application without stores "
                "need only be started again. With stores, where keys would move between tasks, give it a topic of at "
                f"most {tasks} partitions, another application_id, or take it back to the beginning with: "
                "headrace reset"
            )
        return f"{group}_{partition}"

    def tasks_of(self, subtopologies: Iterable[int]) -> list[tuple[int, int]]:
        """Sub-topology and partition of each of their tasks."""
        return [(group, partition) for group in subtopologies for partition in range(self.tasks[group])]


def lay_out(topology: Topology, plan: PartitionPlan, application_id: str, known: Mapping[str, int]) -> Layout:
    """The layout of a topology whose topics have these partitions; `known` are the partitions of all topics."""

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
    patterns = {pattern: group.id for group in groups for pattern in _patterns(topology, group)}
    written = {full(topic) for group in groups for topic in _written(topology, group)} - (internal - looped)
    returning = [
        topic
        for topic in sorted(written)
        if topic in readers or topic in global_topics or any(pattern.fullmatch(topic) for pattern in patterns)
    ]
    partitions = {full(topic): count for topic, count in plan.sources.items()}
    chosen_from = {topic: known[topic] for topic in _with_partitioner(topology, known)}
    return Layout(
        stages,
        readers,
        patterns,
        frozenset(internal - looped),
        frozenset(looped),
        global_topics,
        {topic: count for topic in returning if (count := partitions.get(topic, known.get(topic))) is not None},
        {**chosen_from, **partitions},
        dict(plan.tasks),
        frozenset(group.id for group in groups if _may_schedule(topology, group)),
        _starting_offsets(
            topology,
            {
                **{topic: count for topic, count in partitions.items() if topic not in internal - looped},
                **{topic: known[topic] for topic in global_topics},
            },
        ),
    )


def java_pattern(pattern: re.Pattern[str]) -> str:
    """The pattern as Java writes it, in a group of its own."""
    flags = "".join(letter for letter, flag in _FLAGS.items() if pattern.flags & flag)
    return f"(?{flags}:{pattern.pattern.replace('(?P<', '(?<')})"


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


def _patterns(topology: Topology, group: Subtopology) -> list[re.Pattern[str]]:
    nodes = (topology.nodes[name] for name in group.nodes)
    return [node.pattern for node in nodes if isinstance(node, SourceNode) and node.pattern is not None]


def _starting_offsets(topology: Topology, partitions: Mapping[str, int]) -> str:
    """The first offset of each partition; the next one to come where the source says so."""
    sources = [
        node for node in topology.nodes.values() if isinstance(node, SourceNode) and node.offset_reset == "latest"
    ]
    latest = {
        topic
        for node in sources
        for topic in partitions
        if topic in node.topics or (node.pattern is not None and node.pattern.fullmatch(topic))
    }
    if not latest:
        return "earliest"
    return json.dumps(
        {
            topic: {str(number): _LATEST if topic in latest else _EARLIEST for number in range(count)}
            for topic, count in partitions.items()
        }
    )


def _may_schedule(topology: Topology, group: Subtopology) -> bool:
    nodes = (topology.nodes[name] for name in group.nodes)
    return any(
        isinstance(node, ProcessorNode) and isinstance(node.operation, Process | TableTransformValues) for node in nodes
    )


def _with_partitioner(topology: Topology, known: Mapping[str, int]) -> list[str]:
    """The known topics that a sink with a partitioner may write to: all of them where a function chooses the topic."""
    sinks = [node for node in topology.nodes.values() if isinstance(node, SinkNode) and node.partitioner is not None]
    if any(callable(sink.topic) for sink in sinks):
        return list(known)
    return [sink.topic for sink in sinks if isinstance(sink.topic, str) and sink.topic in known]
