"""Topics: which ones are there, which ones an application needs, making and removing them, and the lag of a group."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.errors import ConfigError, EnvironmentFailed, KafkaAway, TopologyError, UnknownTopicError
from headrace.kafka.absence import is_away, is_moving
from headrace.kafka.access import GROUP, Grant, is_refused, lacking, on_topics, refused
from headrace.kafka.clients import ClientSettings
from headrace.kafka.partitions import PartitionPlan
from headrace.topology import Topology
from headrace.topology.nodes import SinkNode
from headrace.topology.stores import StoreKind, StoreSpec

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

logger = logging.getLogger(__name__)

READS, WRITES = "reads", "writes to"
"""What a topology does with a topic."""
ADDITIONAL_RETENTION_MS = 24 * 60 * 60 * 1000
"""How much longer than its store a changelog keeps records, as in Kafka Streams."""
_DELETIONS_KEPT_MS = 86_400_000
_MAX_LONG = 2**63 - 1
_WINDOWED = (StoreKind.WINDOW, StoreKind.TIMESTAMPED_WINDOW, StoreKind.SESSION)
_INTERNAL_SUFFIXES = (
    "-changelog",
    "-repartition",
    "-subscription-registration-topic",
    "-subscription-response-topic",
)
_NOT_READY = "All brokers are currently fenced"
"""What a cluster says whose brokers have just come back."""
_NO_LEADERS = "No leaders found"
"""What librdkafka says of partitions whose broker has just come back; it has no code of its own for it."""
_PAUSE_SECONDS = 0.1
_STEP_SECONDS = 1.0

_T = TypeVar("_T")


@dataclass(frozen=True)
class TopicSpec:
    """A topic to be made. `configs` are the topic's settings under Kafka's names."""

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    replication_factor: int = -1


@dataclass(frozen=True)
class PartitionLag:
    """Where a group stands in a partition. Offsets are those a read_committed consumer sees."""

    topic: str
    partition: int
    committed: int | None
    """None: the group has committed nothing there yet."""
    beginning: int
    end: int

    @property
    def lag(self) -> int:
        """How many offsets the group is behind."""
        return max(0, self.end - max(self.beginning, self.committed or 0))


# --- the topics of an application --------------------------------------------------------------------------------


def repartition_topics(application_id: str, plan: PartitionPlan, replication_factor: int = -1) -> list[TopicSpec]:
    """The topics between sub-topologies, as Kafka Streams makes them."""
    configs = {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "-1",
        "segment.bytes": str(50 * 1024 * 1024),
    }
    return [
        TopicSpec(f"{application_id}-{name}", partitions, configs, replication_factor)
        for name, partitions in plan.repartition.items()
    ]


def changelog_topics(
    application_id: str, topology: Topology, plan: PartitionPlan, replication_factor: int = -1
) -> list[TopicSpec]:
    """The changelogs of the stores, as Kafka Streams makes them."""
    return [
        TopicSpec(
            f"{application_id}-{store}-changelog",
            partitions,
            changelog_configs(topology.stores[store]),
            replication_factor,
        )
        for store, partitions in plan.changelogs.items()
    ]


def changelog_configs(store: StoreSpec) -> dict[str, str]:
    """The settings of a store's changelog."""
    configs = {"message.timestamp.type": "CreateTime", "cleanup.policy": "compact"}
    with_margin = str(min(store.retention_ms + ADDITIONAL_RETENTION_MS, _MAX_LONG))
    if store.kind in _WINDOWED:
        # With duplicates, records of one key are different entries: compaction would lose them.
        configs["cleanup.policy"] = "delete" if store.retain_duplicates else "compact,delete"
        configs["retention.ms"] = with_margin
    elif store.kind is StoreKind.VERSIONED:
        configs["min.compaction.lag.ms"] = with_margin
    return configs


def fixed_sinks(topology: Topology, dead_letter_topic: str | None = None) -> tuple[str, ...]:
    """The topics that an application writes to, as far as they have a fixed name; internal ones aside."""
    names = [node.topic for node in topology.nodes.values() if isinstance(node, SinkNode)]
    if dead_letter_topic is not None:
        names.append(dead_letter_topic)
    fixed = (name for name in names if isinstance(name, str) and name not in topology.internal_topics)
    return tuple(dict.fromkeys(fixed))


def is_internal(topic: str, application_id: str) -> bool:
    """Whether the topic is an internal one of the application, by its name."""
    return topic.startswith(f"{application_id}-") and topic.endswith(_INTERNAL_SUFFIXES)


# --- the cluster -------------------------------------------------------------------------------------------------


class Topics:
    """The topics of a cluster, through an admin client."""

    def __init__(self, settings: ClientSettings, timeout: float = 30.0) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self._settings = settings
        self._servers = settings.bootstrap_servers
        self._readers: dict[str, Consumer] = {}
        self._timeout = timeout
        self._knows_leaders = False
        self._not_purged: set[str] = set()
        try:
            self._admin: AdminClient = AdminClient({"log_level": 0, **settings.admin()})
        except KafkaException as error:
            raise ConfigError(f"kafka settings: {_reason(error)}") from None

    def describe(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """The number of partitions by topic, of those that exist; of all topics by default."""
        found = self._cluster().topics
        wanted = found if names is None else [name for name in names if name in found]
        return {name: len(found[name].partitions) for name in wanted if found[name].error is None}

    def is_replicated(self, name: str) -> bool:
        """Whether another broker may come to lead a partition of the topic; False if there is no such topic."""
        found = self._cluster().topics.get(name)
        return found is not None and any(len(each.replicas) > 1 for each in found.partitions.values())

    def require(self, names: Iterable[str], purpose: str = READS) -> dict[str, int]:
        """The number of partitions by topic; UnknownTopicError names all that do not exist and how to make them.

        EnvironmentFailed names those that the user may not see.
        """
        names = list(dict.fromkeys(names))
        known = self.describe(names)
        missing = [name for name in names if name not in known]
        if missing:
            # Kafka does not show topics that the user may not see.
            self.check_access(on_topics("Read" if purpose == READS else "Write", missing))
            commands = "\n".join(
                f"  kafka-topics.sh --bootstrap-server {self._servers} --create --topic {name} --partitions 4"
                for name in missing
            )
            raise UnknownTopicError(
                f"Kafka at {self._servers} has no topic {', '.join(missing)}, which the topology {purpose}. "
                f"Let Headrace make what is missing, headrace run … --create-topics, or do it yourself:\n{commands}"
            )
        return known

    def create(self, specs: Iterable[TopicSpec], *, exist_ok: bool = False) -> list[str]:
        """Makes topics and returns, when the cluster shows them, those that are new."""
        specs = list(specs)
        if not specs:
            return []
        deadline = time.monotonic() + self._timeout
        created: list[str] = []
        left = specs
        while left:
            problems = self._create(left, exist_ok)
            created += [spec.name for spec in left if spec.name not in problems]
            left = [spec for spec in left if _NOT_READY in (problems.get(spec.name) or "")]
            grave = [f"{name}: {reason}" for name, reason in problems.items() if reason and _NOT_READY not in reason]
            if grave or (left and time.monotonic() > deadline):
                told = grave or [f"{spec.name}: {problems[spec.name]}" for spec in left]
                raise EnvironmentFailed(f"Kafka at {self._servers} did not make the topics: {'; '.join(told)}")
            time.sleep(_PAUSE_SECONDS if left else 0)
        self._await(lambda known: all(spec.name in known for spec in specs), "show the new topics")
        return created

    def _create(self, specs: list[TopicSpec], exist_ok: bool) -> dict[str, str | None]:
        """Asks once; by topic that was not made the reason, None where it is there already and may be."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic

        asked = [
            NewTopic(spec.name, spec.partitions, spec.replication_factor, config=dict(spec.configs)) for spec in specs
        ]
        problems: dict[str, str | None] = {}
        not_allowed: list[str] = []
        answers = self._ask(lambda: self._admin.create_topics(asked, operation_timeout=self._timeout))
        for name, future in answers.items():
            try:
                future.result()
            except KafkaException as error:
                exists = error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
                problems[name] = None if exist_ok and exists else _reason(error)
                if is_refused(error):
                    not_allowed.append(name)
        if not_allowed:
            raise refused(self._settings, on_topics("Create", not_allowed))
        return problems

    def ensure(self, specs: Iterable[TopicSpec]) -> list[str]:
        """Makes the internal topics that are missing and returns their names.

        TopologyError, with nothing changed, if one exists that does not fit; EnvironmentFailed if the user may not see
        one.
        """
        specs = list(specs)
        known = self.describe(spec.name for spec in specs)
        misfits = self._misfits([spec for spec in specs if spec.name in known], known)
        if misfits:
            listed = "\n".join(f"  {misfit}" for misfit in misfits)
            raise TopologyError(
                f"internal topics of this application exist and do not fit the topology:\n{listed}\n"
                "Start over with headrace reset, run under another application_id, "
                "or undo the change of the topology or of the source topics"
            )
        missing = [spec for spec in specs if spec.name not in known]
        # Kafka does not show topics that the user may not see: they may be there.
        names = [spec.name for spec in missing]
        self.check_access(on_topics("Read", names) + on_topics("Write", names))
        return self.create(missing, exist_ok=True)

    def configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """The settings of topics, defaults included."""
        from confluent_kafka.admin import ConfigResource, ResourceType

        names = list(names)
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        if not resources:
            return {}

        def describe() -> dict[Any, Any]:
            asked = self._admin.describe_configs(resources, request_timeout=self._timeout)
            return {resource: future.result() for resource, future in asked.items()}

        return {
            resource.name: {name: entry.value for name, entry in entries.items()}
            for resource, entries in self._ask(describe, on_topics("DescribeConfigs", names)).items()
        }

    def deletions_kept_ms(self, names: Iterable[str]) -> dict[str, int]:
        """How long each of the topics that are compacted keeps the records that delete a key.

        Kafka's default is assumed where it does not tell.
        """
        names = list(names)
        try:
            configs = self.configs(names)
        except EnvironmentFailed:
            return dict.fromkeys(names, _DELETIONS_KEPT_MS)
        return {
            name: int(each["delete.retention.ms"])
            for name, each in configs.items()
            if "compact" in each["cleanup.policy"]
        }

    def configure(self, name: str, configs: Mapping[str, str]) -> None:
        """Changes settings of a topic, and no others."""
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        entries = [
            ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
            for setting, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        alter = self._admin.incremental_alter_configs

        def alter_configs() -> None:
            alter([resource], request_timeout=self._timeout)[resource].result()

        self._ask(alter_configs, on_topics("AlterConfigs", [name]))

    def makes_what_is_written(self) -> bool:
        """Whether the brokers make a topic that is written to; so it is assumed where they do not tell."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource, ResourceType

        brokers = self._cluster().brokers
        resource = ConfigResource(ResourceType.BROKER, str(min(brokers)))
        try:
            asked = self._admin.describe_configs([resource], request_timeout=self._timeout)
            entry = asked[resource].result()["auto.create.topics.enable"]
        except (KafkaException, KeyError):
            return True
        return str(entry.value) != "false"

    def delete(self, names: Iterable[str]) -> None:
        """Removes topics, those that exist, and returns when they are gone."""
        existing = list(self.describe(names))
        if not existing:
            return

        def delete() -> None:
            for future in self._admin.delete_topics(existing, operation_timeout=self._timeout).values():
                future.result()

        self._ask(delete, on_topics("Delete", existing))
        self._await(lambda known: not any(name in known for name in existing), "remove the topics")

    def lag(self, group: str, topics: Iterable[str]) -> list[PartitionLag]:
        """Where a consumer group stands, by topic and partition; topics that do not exist are left out."""
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec

        known = self.describe(topics)
        wanted = [TopicPartition(name, number) for name, count in known.items() for number in range(count)]
        if not wanted:
            return []
        reader = self._reader(group)
        # A group that may be read may be described too, and an application needs the first.
        needed = [Grant("Read", GROUP, group)]
        answer = self._ask(lambda: _committed(reader, wanted, self._timeout), needed)
        committed = {(each.topic, each.partition): each.offset for each in answer}
        beginnings = self._offsets(wanted, OffsetSpec.earliest())
        ends = self._offsets(wanted, OffsetSpec.latest())
        return [
            PartitionLag(*place, offset if (offset := committed.get(place, -1)) >= 0 else None, beginning, ends[place])
            for place, beginning in beginnings.items()
        ]

    def await_committed(self, partitions: Mapping[str, int], seconds: float) -> bool:
        """Waits until a read_committed reader gets all that is in the topics now.

        False if a transaction has been open for so long.
        """
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec

        wanted = [TopicPartition(name, number) for name, count in partitions.items() for number in range(count)]
        deadline = time.monotonic() + seconds
        ends = self._offsets(wanted, OffsetSpec.latest(), committed=False)
        while any(offset < ends[place] for place, offset in self._offsets(wanted, OffsetSpec.latest()).items()):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True

    def beginnings(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The first offset that each of these partitions still has."""
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(_places(partitions), OffsetSpec.earliest())

    def ends(self, partitions: Iterable[tuple[str, int]], *, committed: bool = True) -> dict[tuple[str, int], int]:
        """How far a reader gets in these partitions now: one that is read_committed, or any."""
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(_places(partitions), OffsetSpec.latest(), committed)

    def ends_behind(self, least: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """How far any reader gets in these partitions, which is known to be so far at least; else KafkaAway.

        A broker that stood still while another one took its place tells of an earlier end until it knows.
        """
        deadline = time.monotonic() + self._timeout
        while True:
            ends = self.ends(least, committed=False)
            behind = [place for place, offset in least.items() if ends[place] < offset]
            if not behind:
                return ends
            if time.monotonic() > deadline:
                topic, number = behind[0]
                raise KafkaAway(
                    f"Partition {number} of topic {topic} ends at offset {ends[behind[0]]} by what Kafka at "
                    f"{self._settings.bootstrap_servers} says, but it was written up to {least[behind[0]]}."
                )
            time.sleep(_PAUSE_SECONDS)

    def purge(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Has Kafka delete the records before these offsets, and does not wait for it."""
        from confluent_kafka import TopicPartition

        if offsets:
            wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
            for place, future in self._admin.delete_records(wanted).items():
                future.add_done_callback(partial(self._see_purge, place.topic))

    def _see_purge(self, topic: str, deleted: Future[Any]) -> None:
        """Reports, once for each topic, that Kafka does not delete its records: nothing else would tell."""
        error = deleted.exception()
        if error is not None and is_refused(error) and topic not in self._not_purged:
            self._not_purged.add(topic)
            why = refused(self._settings, on_topics("Delete", [topic]))
            logger.warning("Topic %s keeps what was read of it. %s", topic, why)

    def ids(self, names: Iterable[str]) -> dict[str, str]:
        """The ids of the topics that exist: a topic that is deleted and created again gets another one."""
        return self.ask_for_ids(names)()

    def ask_for_ids(self, names: Iterable[str]) -> Callable[[], dict[str, str]]:
        """Asks for the ids without waiting; the result waits for the answer."""
        from confluent_kafka import KafkaException, TopicCollection

        wanted = list(names)
        asked = self._admin.describe_topics(TopicCollection(wanted), request_timeout=self._timeout) if wanted else {}

        def answer() -> dict[str, str]:
            found: dict[str, str] = {}
            for name, future in asked.items():
                try:
                    found[name] = str(future.result().topic_id)
                except KafkaException as error:
                    if is_away(error) or is_refused(error):
                        raise self._unreachable(error, on_topics("Describe", [name])) from None
            return found

        return answer

    def has_committed(self, group: str, topics: Iterable[str]) -> bool:
        """Whether a consumer group has an offset in any of these topics."""
        return any(each.committed is not None for each in self.lag(group, topics))

    def delete_group(self, group: str) -> None:
        """Forgets a consumer group and its offsets, if it exists."""
        from confluent_kafka import KafkaError, KafkaException

        def delete() -> None:
            try:
                self._admin.delete_consumer_groups([group], request_timeout=self._timeout)[group].result()
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.NON_EMPTY_GROUP:
                    raise EnvironmentFailed(
                        f"The consumer group {group} is in use: stop the application first, everywhere it runs."
                    ) from None
                if code != KafkaError.GROUP_ID_NOT_FOUND:
                    raise

        self._ask(delete, [Grant("Delete", GROUP, group)])

    def check_access(self, grants: Iterable[Grant]) -> None:
        """Raises EnvironmentFailed where Kafka says that the user lacks some of these grants."""
        missing = lacking(self._admin, grants, self._timeout)
        if missing:
            raise refused(self._settings, missing)

    def refusal(self, grants: Iterable[Grant]) -> EnvironmentFailed:
        """The error of a request that was refused, for want of which of these grants Kafka may tell."""
        grants = list(grants)
        return refused(self._settings, lacking(self._admin, grants, self._timeout) or grants)

    def _reader(self, group: str) -> Consumer:
        """A consumer that asks for the group's offsets without joining it.

        The admin client could ask as well, but librdkafka's takes the process down with it where the coordinator has
        moved or is not ready yet (https://github.com/confluentinc/librdkafka/issues/5040).
        """
        from confluent_kafka import Consumer

        if group not in self._readers:
            # As read_committed, it would wait for a transaction that a process which died has left open.
            ours = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
            self._readers[group] = Consumer({"log_level": 0, **self._settings.consumer(**ours)})
        return self._readers[group]

    def _cluster(self) -> Any:
        """What the brokers tell of themselves and their topics."""
        found = self._ask(lambda: self._admin.list_topics(timeout=self._timeout))
        self._knows_leaders = True
        return found

    def _offsets(self, partitions: list[Any], spec: Any, committed: bool = True) -> dict[tuple[str, int], int]:
        from confluent_kafka import IsolationLevel

        if not partitions:
            return {}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

        def list_offsets() -> dict[tuple[str, int], int]:
            if not self._knows_leaders:
                self._cluster()  # a client left to itself may take seconds to find them, or minutes once they moved
            self._knows_leaders = False
            wanted = dict.fromkeys(partitions, spec)
            asked = self._admin.list_offsets(wanted, isolation_level=level, request_timeout=self._timeout)
            found = {(each.topic, each.partition): future.result().offset for each, future in asked.items()}
            self._knows_leaders = all(offset >= 0 for offset in found.values())
            return found

        found = self._ask(list_offsets, on_topics("Describe", {each.topic for each in partitions}))
        unknown = [place for place, offset in found.items() if offset < 0]
        if unknown:
            # librdkafka has no error for a leader that does not answer, or that has moved.
            topic, number = unknown[0]
            raise KafkaAway(f"Kafka at {self._servers} did not say where partition {number} of topic {topic} ends.")
        return found

    def _misfits(self, specs: list[TopicSpec], known: Mapping[str, int]) -> list[str]:
        """What Kafka Streams would complain of too."""
        configs = self.configs(spec.name for spec in specs)
        misfits: list[str] = []
        for spec in specs:
            if known[spec.name] != spec.partitions:
                misfits.append(f"{spec.name} has {known[spec.name]} partitions and needs {spec.partitions}")
            misfits += (f"{spec.name} has {problem}" for problem in _config_misfits(spec.configs, configs[spec.name]))
        return misfits

    def _await(self, done: Callable[[dict[str, int]], bool], what: str) -> None:
        deadline = time.monotonic() + self._timeout
        while not done(self.describe()):
            if time.monotonic() > deadline:
                raise EnvironmentFailed(f"Kafka at {self._servers} did not {what} within {self._timeout:.0f} seconds.")
            time.sleep(0.05)

    def _ask(self, question: Callable[[], _T], needed: Iterable[Grant] = ()) -> _T:
        """Asks, and asks again while a leader or a coordinator moves, or is not ready yet.

        `needed` is what the user must be allowed.
        """
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return question()
            except KafkaException as error:
                if not is_moving(error) or time.monotonic() > deadline:
                    raise self._unreachable(error, needed) from None
            time.sleep(0.05)

    def _unreachable(self, error: Exception, needed: Iterable[Grant] = ()) -> EnvironmentFailed:
        needed = list(needed)
        if needed and is_refused(error):
            return self.refusal(needed)
        kind = KafkaAway if is_away(error) or _NO_LEADERS in str(error) else EnvironmentFailed
        return kind(
            f"Kafka at {self._servers} did not answer as it should: {_reason(error)}. Check that it runs, that "
            "bootstrap_servers is right, and that the kafka settings (TLS, SASL) are those of the cluster."
        )


def _places(partitions: Iterable[tuple[str, int]]) -> list[Any]:
    from confluent_kafka import TopicPartition

    return [TopicPartition(*place) for place in partitions]


def _committed(reader: Consumer, partitions: list[Any], seconds: float) -> list[Any]:
    """The offsets of the reader's group. That it may not see the group is only told to who polls, not to who asks."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + seconds
    while True:
        left = deadline - time.monotonic()
        try:
            found: list[Any] = reader.committed(partitions, timeout=min(_STEP_SECONDS, max(0.0, left)))
            return found
        except KafkaException as error:
            told = reader.poll(0)
            if told is not None and is_refused(told.error()):
                raise KafkaException(told.error()) from error
            if not is_away(error) or is_moving(error) or left <= 0:
                raise


def _config_misfits(wanted: Mapping[str, str], actual: Mapping[str, str]) -> list[str]:
    policy = actual["cleanup.policy"]
    misfits: list[str] = []
    for kind in ("compact", "delete"):
        if kind in policy and kind not in wanted.get("cleanup.policy", "delete"):
            misfits.append(f"cleanup.policy={policy} and needs {wanted.get('cleanup.policy', 'delete')}")
    for name in ("retention.ms", "min.compaction.lag.ms"):
        if name not in wanted or (name == "retention.ms" and "delete" not in policy):
            continue
        if _unlimited(actual[name], name) < _unlimited(wanted[name], name):
            misfits.append(f"{name}={actual[name]} and needs {wanted[name]} or more")
    if "retention.ms" in wanted and "delete" in policy and actual.get("retention.bytes", "-1") != "-1":
        misfits.append(f"retention.bytes={actual['retention.bytes']} and needs none")
    return misfits


def _unlimited(value: str, name: str) -> float:
    return float("inf") if name == "retention.ms" and int(value) < 0 else int(value)


def _reason(error: Exception) -> str:
    first: Any = error.args[0] if error.args else error
    return str(first.str()) if hasattr(first, "str") else str(first)
