"""An application seen from outside: its topics by what they are for, and its files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.kafka.internal_topics import COMMITS, commits_topic, peers_topic
from headrace.kafka.topics import Topics, fixed_sinks, is_internal
from headrace.presence import serving_directory
from headrace.topology import Topology
from headrace.topology.nodes import SourceNode

_COMMITS = f"-{COMMITS}"
SOURCE, SINK, INTERNAL = "source", "sink", "internal"


@dataclass(frozen=True)
class ApplicationTopic:
    """A topic of an application."""

    name: str
    kind: str
    partitions: int | None
    """None: it does not exist."""
    lag: int | None = None
    """How far the application is behind, where it reads the topic."""


def topics_of(application_id: str, topology: Topology | None, topics: Topics) -> list[ApplicationTopic]:
    """The topics an application reads, writes and has for itself. Without a topology: those Kafka knows it by."""
    known = topics.describe()
    internal = internal_topics(application_id, known)
    sinks: tuple[str, ...] = ()
    if topology is None:
        candidates = [name for name in known if name not in internal and not name.startswith("__")]
    else:
        candidates = list(sources_of(topology, known))
        sinks = tuple(name for name in fixed_sinks(topology) if name not in candidates)
    lags: dict[str, int] = {}
    seen: set[str] = set()
    for each in topics.lag(application_id, candidates):
        lags[each.topic] = lags.get(each.topic, 0) + each.lag
        if each.committed is not None:
            seen.add(each.topic)
    sources = [name for name in candidates if topology is not None or name in seen]
    return [
        *(ApplicationTopic(name, SOURCE, known.get(name), lags.get(name)) for name in sources),
        *(ApplicationTopic(name, SINK, known.get(name)) for name in sinks),
        *(ApplicationTopic(name, INTERNAL, known[name]) for name in internal),
    ]


def sources_of(topology: Topology, known: Iterable[str]) -> tuple[str, ...]:
    """The topics that the topology reads from outside; of a pattern, those that exist."""
    found: dict[str, None] = {}
    for node in topology.nodes.values():
        if isinstance(node, SourceNode):
            pattern = node.pattern
            matching = (name for name in known if pattern is not None and pattern.fullmatch(name))
            found.update(dict.fromkeys(node.topics if pattern is None else sorted(matching)))
    return tuple(name for name in found if name not in topology.internal_topics and not name.startswith("__"))


def internal_topics(application_id: str, known: Mapping[str, int]) -> list[str]:
    """The application's own topics among those that exist.

    `orders-eu-totals-changelog` could be of `orders` or of `orders-eu`: where the latter exists, it is the latter's.
    """
    commits = commits_topic(application_id)
    others = [
        name.removesuffix(_COMMITS) + "-"
        for name in known
        if name.endswith(_COMMITS) and name.startswith(f"{application_id}-") and name != commits
    ]
    return sorted(
        name
        for name in known
        if name in (commits, peers_topic(application_id))
        or (is_internal(name, application_id) and not name.startswith(tuple(others)))
    )


# --- its files ---------------------------------------------------------------------------------------------------


def files_of(state_dir: Path, application_id: str) -> list[Path]:
    """All that the application keeps below the state directory, but for the lock."""
    places = (state_dir / "copies" / application_id, serving_directory(state_dir, application_id))
    return [place for place in places if place.exists()]
