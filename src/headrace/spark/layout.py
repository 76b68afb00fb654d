"""How a topology is laid out on Spark: which sub-topology runs in which stage of a batch.

A sub-topology that reads an internal topic runs in a later stage than the one that writes it, and the rows between
them go through a shuffle of the same batch. Where sub-topologies write to each other in a circle, as a foreign-key
join does, one of the internal topics is a real one: its rows come back with a later batch. And where a sub-topology
merges an internal topic with topics in Kafka, of which a batch may read only a part, rows that have to wait for the
rest wait in a real topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.errors import StreamsError
from headrace.kafka.internal_topics import is_own
from headrace.kafka.partitions import KAFKAS_OWN, PartitionPlan
from headrace.topology import Topology
from headrace.topology.nodes import ProcessorNode, SinkNode, SourceNode
from headrace.topology.operations import Process, TableTransformValues
from headrace.topology.topology import Subtopology


@dataclass(frozen=True)
class Layout:
    """The stages of a batch. Topics have the application's prefix."""

    application_id: str
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
    spilling: frozenset[str]
    """Shuffled topics of which some rows may have to come back with a later batch."""
    global_topics: frozenset[str]
    returning: Mapping[str, int]
    """The topics in Kafka that tasks both write, if only now and then, and read, with their partitions."""
    partitions: Mapping[str, int]
    """By topic that a task reads or that is internal, and by topic that a partitioner of the user's writes to."""
    tasks: Mapping[int, int]
    """By sub-topology, how many partitions it has."""
    scheduling: frozenset[int]
    """Sub-topologies with processors of the user's, which may ask for punctuations."""
    read_from_end: frozenset[str]
    """Topics and patterns that are read from their end on when the application first runs."""

    def sources(self, known: Iterable[str]) -> list[str]:
        """Of the topics that Kafka has, those that tasks read."""
        return [
            topic
            for topic in known
            if (topic in self.readers and (topic not in self.shuffled or topic in self.spilling))
            or (topic not in self.readers and self._may_match(topic) and self._pattern_of(topic) is not None)
        ]

    def begins_at_end(self, topic: str) -> bool:
        """Whether a topic is read from its end on when it is first read."""
        if topic in self.readers:
            return topic in self.read_from_end
        pattern = self._pattern_of(topic)
        return pattern is not None and pattern.pattern in self.read_from_end

    def stage_tasks(self, stage: int) -> list[str]:
        """The names of a stage's tasks."""
        return [f"{group}_{partition}" for group, partition in self.tasks_of(self.stages[stage])]

    def group_of(self, topic: str) -> int:
        """The sub-topology that reads a source topic."""
        group = self.readers.get(topic)
        if group is None:
            pattern = self._pattern_of(topic)
            assert pattern is not None, f"{topic} is no source of the topology"
            group = self.patterns[pattern]
        return group

    def task_for(self, topic: str, partition: int) -> str:
        """The task that reads a partition of a source topic; StreamsError where there is none."""
        group = self.group_of(topic)
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

    def _may_match(self, topic: str) -> bool:
        """Whether a pattern may mean the topic: the application's own internal ones are never meant."""
        return topic not in KAFKAS_OWN and not is_own(topic, self.application_id)

    def _pattern_of(self, topic: str) -> re.Pattern[str] | None:
        return next((pattern for pattern in self.patterns if pattern.fullmatch(topic)), None)

    def tasks_of(self, subtopologies: Iterable[int]) -> list[tuple[int, int]]:
        """Sub-topology and partition of each of their tasks."""
        return [(group, partition) for group in subtopologies for partition in range(self.tasks[group])]


def task_parts(task: str) -> tuple[int, int]:
    """The sub-topology and the partition of a task, by its name."""
    group, _, partition = task.partition("_")
    return int(group), int(partition)


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
    spilling = _topics_that_wait(
        {group.id: {full(topic) for topic in _read(topology, group)} for group in groups},
        {full(topic) for topic in topology.internal_topics} - looped,
        {group.id for group in groups if _patterns(topology, group)},
    )
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
    written = {full(topic) for group in groups for topic in _written(topology, group)} - (internal - looped - spilling)
    returning = [
        topic
        for topic in sorted(written)
        if topic in readers or topic in global_topics or any(pattern.fullmatch(topic) for pattern in patterns)
    ]
    partitions = {full(topic): count for topic, count in plan.sources.items()}
    chosen_from = {topic: known[topic] for topic in _with_partitioner(topology, known)}
    return Layout(
        application_id,
        stages,
        readers,
        patterns,
        frozenset(internal - looped),
        frozenset(looped),
        frozenset(spilling),
        global_topics,
        {topic: count for topic in returning if (count := partitions.get(topic, known.get(topic))) is not None},
        {**chosen_from, **partitions},
        dict(plan.tasks),
        frozenset(group.id for group in groups if _may_schedule(topology, group)),
        frozenset(
            name
            for node in topology.nodes.values()
            if isinstance(node, SourceNode) and node.offset_reset == "latest"
            for name in (*node.topics, *([] if node.pattern is None else [node.pattern.pattern]))
        ),
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


def _topics_that_wait(reads: Mapping[int, set[str]], shuffled: set[str], patterned: set[int]) -> set[str]:
    """The shuffled topics that a sub-topology merges with topics in Kafka."""
    return {
        topic
        for group, topics in reads.items()
        if group in patterned or topics - shuffled
        for topic in topics & shuffled
    }


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
