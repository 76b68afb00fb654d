"""The internal topics of an application, made before anything of it runs."""

from __future__ import annotations

from headrace.config import StreamsConfig
from headrace.kafka.access import on_topics
from headrace.kafka.clients import ClientSettings
from headrace.kafka.partitions import PartitionPlan, plan_partitions, source_topics
from headrace.kafka.topics import WRITES, Topics, TopicSpec, changelog_topics, fixed_sinks, is_internal
from headrace.topology import Topology

COMMITS = "commits"
"""The topic with a record for each batch that was committed; the owner of its partition leads."""
_COMMITS_CONFIGS = {
    "cleanup.policy": "compact",
    # When a batch was committed is told by the clock of the broker: the one of the application may be wrong.
    "message.timestamp.type": "LogAppendTime",
    # Each batch writes a record and only the last one counts: what came before it is removed soon.
    "segment.bytes": str(16 * 1024 * 1024),
    "max.message.bytes": str(16 * 1024 * 1024),
}


PEERS = "peers"
"""The topic with the secret that instances sign requests to each other with."""


def peers_topic(application_id: str) -> str:
    """The application's topic of its instances' secret."""
    return f"{application_id}-{PEERS}"


def commits_topic(application_id: str) -> str:
    """The application's topic of commits."""
    return f"{application_id}-{COMMITS}"


def is_own(topic: str, application_id: str) -> bool:
    """Whether a topic is the application's own, by its name: its commits, a changelog, a repartition topic, …"""
    return topic in (commits_topic(application_id), peers_topic(application_id)) or is_internal(topic, application_id)


def plan_topics(topology: Topology, config: StreamsConfig, settings: ClientSettings) -> PartitionPlan:
    """Sees that the topics that are read and written are there, and plans the internal ones."""
    topics = Topics(settings)
    topics.require(source_topics(topology))
    if not topics.makes_what_is_written():
        topics.require(fixed_sinks(topology, config.dead_letter_queue_topic), WRITES)
    assert config.application_id is not None
    application_id, named = config.application_id, source_topics(topology)
    # A pattern that would mean the application's own topics means the others.
    known = {topic: n for topic, n in topics.describe().items() if topic in named or not is_own(topic, application_id)}
    return plan_partitions(topology, known)


def make_topics(topology: Topology, config: StreamsConfig, settings: ClientSettings, plan: PartitionPlan) -> None:
    """Makes the internal topics that are not there yet."""
    assert config.application_id is not None
    commits = TopicSpec(commits_topic(config.application_id), 1, _COMMITS_CONFIGS, config.replication_factor)
    changelogs = changelog_topics(config.application_id, topology, plan, config.replication_factor)
    topics = Topics(settings)
    made = topics.ensure([commits, *changelogs])
    # What may be done with a topic is told once it exists.
    topics.check_access(on_topics("Read", made) + on_topics("Write", made))


def check_access(topology: Topology, config: StreamsConfig, settings: ClientSettings, plan: PartitionPlan) -> None:
    """Raises EnvironmentFailed where the user may not read or write a topic that the pipeline reads or writes."""
    assert config.application_id is not None
    sources = dict.fromkeys([*source_topics(topology), *(t for t in plan.sources if t not in topology.internal_topics)])
    sinks = fixed_sinks(topology, config.dead_letter_queue_topic)
    changelogs = [each.name for each in changelog_topics(config.application_id, topology, plan)]
    own = [commits_topic(config.application_id), *changelogs]
    Topics(settings).check_access(on_topics("Read", [*sources, *own]) + on_topics("Write", [*sinks, *own]))


def prepare_topics(topology: Topology, config: StreamsConfig, settings: ClientSettings) -> None:
    """Plans the internal topics and makes them."""
    make_topics(topology, config, settings, plan_topics(topology, config, settings))
