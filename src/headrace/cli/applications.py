"""An application seen from outside: its topics by what they are for, its files, and whether it runs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import EnvironmentFailed, StreamsError
from headrace.kafka.locks import Lock
from headrace.kafka.topics import Topics, is_internal
from headrace.topology import Topology
from headrace.topology.nodes import SinkNode, SourceNode

COMMITS = "-commits"
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
        sinks = tuple(name for name in sinks_of(topology) if name not in candidates)
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


def sinks_of(topology: Topology) -> tuple[str, ...]:
    """The topics that the topology writes to, as far as they have a fixed name."""
    names = (node.topic for node in topology.nodes.values() if isinstance(node, SinkNode))
    fixed = (name for name in names if isinstance(name, str) and name not in topology.internal_topics)
    return tuple(dict.fromkeys(fixed))


def internal_topics(application_id: str, known: Mapping[str, int]) -> list[str]:
    """The application's own topics among those that exist.

    `orders-eu-totals-changelog` could be of `orders` or of `orders-eu`: where the latter exists, it is the latter's.
    """
    commits = application_id + COMMITS
    others = [
        name.removesuffix(COMMITS) + "-"
        for name in known
        if name.endswith(COMMITS) and name.startswith(f"{application_id}-") and name != commits
    ]
    return sorted(
        name
        for name in known
        if name == commits or (is_internal(name, application_id) and not name.startswith(tuple(others)))
    )


# --- its files ---------------------------------------------------------------------------------------------------


def checkpoint_of(state_dir: Path, application_id: str) -> Path:
    """The directory of the application's checkpoint."""
    return state_dir / "checkpoints" / application_id


def files_of(state_dir: Path, application_id: str) -> list[Path]:
    """All that the application keeps below the state directory, but for the lock."""
    found: list[Path] = []
    with contextlib.suppress(FileNotFoundError):
        checkpoint = checkpoint_of(state_dir, application_id)
        found += sorted(path for path in checkpoint.iterdir() if path.name != _LOCK)
    copies = re.compile(re.escape(application_id) + r"-([0-9a-f]{8}|boot)")
    with contextlib.suppress(FileNotFoundError):
        found += sorted(path for path in (state_dir / "copies").iterdir() if copies.fullmatch(path.name))
    return found


# --- whether it runs ---------------------------------------------------------------------------------------------

_LOCK = "running.lock"


@contextmanager
def running(state_dir: Path, application_id: str) -> Iterator[None]:
    """Marks the application as running while the block runs. A second one may: Kafka fences the first."""
    lock = _lock(state_dir, application_id)
    try:
        if not lock.try_share():
            raise StreamsError(f"The application {application_id} is being reset at this moment; start it afterwards.")
        yield
    finally:
        lock.close()


@contextmanager
def at_rest(state_dir: Path, application_id: str) -> Iterator[None]:
    """Sees to it that the application does not run while the block runs; StreamsError if it does."""
    lock = _lock(state_dir, application_id)
    try:
        if not lock.try_own():
            raise StreamsError(f"The application {application_id} is running: stop it first. Nothing was touched.")
        yield
    finally:
        lock.close()


def _lock(state_dir: Path, application_id: str) -> Lock:
    directory = checkpoint_of(state_dir, application_id)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return Lock.on(directory / _LOCK)
    except OSError as error:
        raise EnvironmentFailed(
            f"The directory {directory} cannot be used: {error.strerror}. Choose another place with --state-dir."
        ) from None
