"""What Kafka lets an application do: what it needs, what it lacks, and the error that says what to grant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.errors import EnvironmentFailed
from headrace.kafka.absence import is_one_of
from headrace.kafka.clients import ClientSettings

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TOPIC, GROUP, TRANSACTIONAL_ID, CLUSTER = "topic", "group", "transactional-id", "cluster"
"""What something is granted on, as kafka-acls.sh names it."""
_REFUSED = (
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
)


class Grant(NamedTuple):
    """Something a user may be allowed to do, in the words of kafka-acls.sh."""

    operation: str
    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.operation} on {self.kind.replace('-', ' ')} {self.name}".rstrip()


def on_topics(operation: str, names: Iterable[str]) -> list[Grant]:
    """The same operation on several topics."""
    return [Grant(operation, TOPIC, name) for name in names]


def is_refused(error: Any) -> bool:
    """Whether a KafkaError or KafkaException of librdkafka says that the user is not allowed to do something."""
    return is_one_of(error, _REFUSED)


def to_read(error: Any, topic: str, group: str) -> Grant:
    """What a consumer lacks that was refused to read a topic: librdkafka also looks for its group."""
    if is_one_of(error, ("GROUP_AUTHORIZATION_FAILED",)):
        return Grant("Read", GROUP, group)
    return Grant("Read", TOPIC, topic)


def refused(settings: ClientSettings, grants: Iterable[Grant]) -> EnvironmentFailed:
    """The error of a user who lacks these grants: what they are, and the commands that give them."""
    grants = list(dict.fromkeys(grants))
    servers, user = settings.bootstrap_servers, settings.user
    operations: dict[tuple[str, str], list[str]] = {}
    for grant in grants:
        operations.setdefault((grant.kind, grant.name), []).append(f" --operation {grant.operation}")
    commands = "\n".join(
        f"  kafka-acls.sh --bootstrap-server {servers} --add --allow-principal User:{user or '…'}{''.join(each)} "
        + f"--{kind} {name}".rstrip()
        for (kind, name), each in operations.items()
    )
    who = f"user {user}" if user else "the user of the application"
    return EnvironmentFailed(
        f"Kafka at {servers} does not allow {who} {', '.join(map(str, grants))}. "
        f"To allow it (docs/hardening.md lists all that an application needs):\n{commands}"
    )


def lacking(admin: AdminClient, grants: Iterable[Grant], seconds: float) -> list[Grant]:
    """Those of the grants on topics that Kafka says the user does not have.

    What it does not tell is not among them, such as what may be done with a topic that does not exist.
    """
    grants = list(grants)
    allowed = _allowed(admin, {grant.name for grant in grants if grant.kind == TOPIC}, seconds)
    return [
        grant
        for grant in grants
        if grant.kind == TOPIC and grant.name in allowed and _enum_name(grant) not in allowed[grant.name]
    ]


def _allowed(admin: AdminClient, topics: set[str], seconds: float) -> dict[str, set[str]]:
    """By topic the operations that are allowed; nothing of those that Kafka does not tell about."""
    from confluent_kafka import KafkaException, TopicCollection

    if not topics:
        return {}
    wanted = TopicCollection(sorted(topics))
    asked = admin.describe_topics(wanted, include_authorized_operations=True, request_timeout=seconds)
    found: dict[str, set[str]] = {}
    for name, future in asked.items():
        try:
            operations = future.result().authorized_operations
        except KafkaException as error:
            if is_refused(error):
                found[name] = set()
            continue
        if operations:
            found[name] = {operation.name for operation in operations}
    return found


def _enum_name(grant: Grant) -> str:
    """The operation as confluent-kafka names it: DESCRIBE_CONFIGS."""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in grant.operation)[1:].upper()
