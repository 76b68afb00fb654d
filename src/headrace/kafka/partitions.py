"""How many partitions internal topics have and how many tasks run: Kafka Streams' rules, over known counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.errors import TopologyError, UnknownTopicError
from headrace.topology import Topology
from headrace.topology.nodes import ProcessorNode, SinkNode, SourceNode
from headrace.topology.topology import Subtopology

KAFKAS_OWN = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's own topics, which no pattern means."""


@dataclass(frozen=True)
class PartitionPlan:
    """Numbers of partitions. Internal topics are without the application's prefix."""

    sources: Mapping[str, int]
    """Every topic that tasks read, internal ones included."""
    repartition: Mapping[str, int]
    """The internal topics between sub-topologies."""
    tasks: Mapping[int, int]
    """By sub-topology, without that of global tables."""
    changelogs: Mapping[str, int]
    """By store, for those with a changelog topic of their own."""


def source_topics(topology: Topology) -> tuple[str, ...]:
    """The topics that must exist: those read by name, of global tables too, without internal ones."""
    names = (topic for node in topology.nodes.values() if isinstance(node, SourceNode) for topic in node.topics)
    return tuple(name for name in dict.fromkeys(names) if name not in topology.internal_topics)


def plan_partitions(topology: Topology, known: Mapping[str, int]) -> PartitionPlan:
    """The plan for topics of which `known` has the counts; TopologyError where joined topics differ."""
    missing = [topic for topic in source_topics(topology) if topic not in known]
    if missing:
        raise UnknownTopicError(f"Unknown topics: {', '.join(missing)}. Their number of partitions is needed.")
    groups = [_Group.of(topology, subtopology, known) for subtopology in topology.subtopologies()]
    groups = [group for group in groups if not group.is_global]
    counts = _repartition_counts(topology, groups, known)
    counts = _copartitioned(topology, counts, known)
    sources = {topic: counts.get(topic, known.get(topic, 0)) for group in groups for topic in group.sources}
    _check_patterns(topology, known)
    tasks = {group.id: max(sources[topic] for topic in group.sources) for group in groups}
    changelogs = {store: tasks[group.id] for group in groups for store in group.changelogs}
    return PartitionPlan(sources, counts, tasks, changelogs)


@dataclass(frozen=True)
class _Group:
    """A sub-topology as the topics it reads and writes and the stores it logs."""

    id: int
    is_global: bool
    sources: tuple[str, ...]
    sinks: frozenset[str]
    changelogs: tuple[str, ...]

    @classmethod
    def of(cls, topology: Topology, subtopology: Subtopology, known: Mapping[str, int]) -> _Group:
        nodes = [topology.nodes[name] for name in subtopology.nodes]
        sources = [topic for node in nodes if isinstance(node, SourceNode) for topic in _topics_of(node, known)]
        sinks = [node.topic for node in nodes if isinstance(node, SinkNode) and isinstance(node.topic, str)]
        stores = [topology.stores[name] for node in nodes if isinstance(node, ProcessorNode) for name in node.stores]
        logged = [store.name for store in stores if store.logging and store.changelog_topic is None]
        return cls(
            subtopology.id,
            subtopology.is_global,
            tuple(dict.fromkeys(sources)),
            frozenset(sinks),
            tuple(dict.fromkeys(logged)),
        )


def _topics_of(node: SourceNode, known: Mapping[str, int]) -> Iterable[str]:
    if node.pattern is None:
        return node.topics
    return sorted(topic for topic in known if node.pattern.fullmatch(topic) and topic not in KAFKAS_OWN)


def _check_patterns(topology: Topology, known: Mapping[str, int]) -> None:
    """How many tasks there are follows from the topics, so there has to be one."""
    for node in topology.nodes.values():
        if isinstance(node, SourceNode) and node.pattern is not None and not list(_topics_of(node, known)):
            where = f" ({node.location})" if node.location else ""
            raise UnknownTopicError(
                f"No topic fits the pattern {node.pattern.pattern!r} that source {node.name!r}{where} reads. "
                "Make at least one before the start; those that come later are found while the application runs"
            )


def _repartition_counts(topology: Topology, groups: list[_Group], known: Mapping[str, int]) -> dict[str, int]:
    """Each as many as the largest topic that is read where it is written, unless the user said how many."""
    counts = {topic: count for topic, count in topology.internal_topics.items() if count is not None}
    open_topics = [topic for topic in topology.internal_topics if topic not in counts]
    while open_topics:
        settled: dict[str, int] = {}
        partial: dict[str, int] = {}
        for topic in open_topics:
            upstream = [source for group in groups if topic in group.sinks for source in group.sources]
            found = [_count(source, topology, counts, known) for source in upstream]
            sizes = [size for size in found if size is not None]
            if sizes:
                (settled if len(sizes) == len(found) else partial)[topic] = max(sizes)
        # In a cycle nothing can be settled for good: what is known so far decides.
        progress = settled or partial
        if not progress:
            raise TopologyError(
                f"the number of partitions of {', '.join(sorted(open_topics))} cannot be told: "
                "no topic that is written there exists. Create the source topics; a pattern must match at least one"
            )
        counts.update(progress)
        open_topics = [topic for topic in open_topics if topic not in counts]
    return counts


def _count(topic: str, topology: Topology, counts: Mapping[str, int], known: Mapping[str, int]) -> int | None:
    return counts.get(topic) if topic in topology.internal_topics else known.get(topic)


def _copartitioned(topology: Topology, counts: Mapping[str, int], known: Mapping[str, int]) -> dict[str, int]:
    """The counts, with internal topics that are joined with others made to have as many as these."""
    enforced = {topic: count for topic, count in topology.internal_topics.items() if count is not None}
    outside = {topic: count for topic, count in known.items() if topic not in topology.internal_topics}
    topology.check_copartitioning({**outside, **enforced})
    result = dict(counts)
    for group in topology.copartitioned_topics:
        fixed = [outside[topic] for topic in group if topic in outside]
        fixed += [enforced[topic] for topic in group if topic in enforced]
        size = fixed[0] if fixed else max(result[topic] for topic in group)
        result.update((topic, size) for topic in group if topic in result)
    return result
