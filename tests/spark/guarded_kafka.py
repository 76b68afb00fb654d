"""A broker with users, an authorizer and the ACLs that docs/hardening.md lists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from tests.spark.lab import await_that

PAGE = Path(__file__).parents[2] / "docs" / "hardening.md"
ADMIN, USER, STRANGER = "admin", "shop", "stranger"
"""`shop` is the user of the page's example."""
_BROKER = "broker"
_TYPES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
_PREFIXED = ", prefixed"


@dataclass(frozen=True, order=True)
class Acl:
    """One operation that is allowed on one thing."""

    kind: str
    name: str
    operation: str
    is_prefix: bool = False

    def __str__(self) -> str:
        return f"{self.operation} on {self.kind} {self.name}{'*' if self.is_prefix else ''}"

    def binding(self, user: str) -> AclBinding:
        """The ACL for a user."""
        pattern = ResourcePatternType.PREFIXED if self.is_prefix else ResourcePatternType.LITERAL
        operation = AclOperation[re.sub(r"(?<=.)([A-Z])", r"_\1", self.operation).upper()]
        restype, principal = _TYPES[self.kind], f"User:{user}"
        return AclBinding(restype, self.name, pattern, principal, "*", operation, AclPermissionType.ALLOW)


# --- the page ----------------------------------------------------------------------------------------------------


def acls_of_table() -> list[Acl]:
    """What the table of the page lists, row by row."""
    rows = (
        cells
        for line in PAGE.read_text().splitlines()
        if len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 4
        and cells[0].removesuffix(_PREFIXED) in _TYPES
    )
    return [
        Acl(on.removesuffix(_PREFIXED), name, operation, on.endswith(_PREFIXED))
        for on, names, operations, _ in rows
        for name in re.findall(r"`([^`]+)`", names)
        for operation in re.findall(r"`([^`]+)`", operations)
    ]


def acls_of_commands() -> list[Acl]:
    """What the commands of the page allow, and to nobody but the user of the example."""
    block = re.search(r"^```sh\nacls=\"(.*?)\"\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    found: list[Acl] = []
    for line in block[2].splitlines():
        words = shlex.split(line.replace("$acls", block[1]))
        assert words[0] == "kafka-acls.sh"
        assert "--add" in words
        pairs = [(one, other) for one, other in pairwise(words) if one.startswith("--")]
        assert [user for option, user in pairs if option == "--allow-principal"] == [f"User:{USER}"]
        is_prefix = ("--resource-pattern-type", "prefixed") in pairs
        found += [
            Acl(option.removeprefix("--"), name, operation, is_prefix)
            for option, name in pairs
            if option.removeprefix("--") in _TYPES
            for other, operation in pairs
            if other == "--operation"
        ]
    return found


# --- the broker --------------------------------------------------------------------------------------------------


class GuardedKafka:
    """A broker that lets users do what they are allowed, and nothing else."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._admin = AdminClient({"log_level": 0, **self.settings(ADMIN).admin()})

    def settings(self, user: str) -> ClientSettings:
        """How a user reaches it."""
        return ClientSettings(self.bootstrap_servers, _login(user))

    def allow(self, acls: Iterable[Acl], user: str = USER) -> None:
        """Allows a user something; returns when the broker knows."""
        bindings = [acl.binding(user) for acl in acls]
        for future in self._admin.create_acls(bindings).values():
            future.result()
        await_that(lambda: set(bindings) <= self._known(), "the broker does not know the ACLs")

    def withdraw(self, acl: Acl, user: str = USER) -> None:
        """Takes something away from a user again; returns when the broker knows."""
        binding = acl.binding(user)
        exactly = AclBindingFilter(
            binding.restype,
            binding.name,
            binding.resource_pattern_type,
            binding.principal,
            binding.host,
            binding.operation,
            binding.permission_type,
        )
        [future] = self._admin.delete_acls([exactly]).values()
        assert list(future.result()) == [binding]
        await_that(lambda: binding not in self._known(), "the broker still has the ACL")

    def _known(self) -> set[AclBinding]:
        everything = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        return set(self._admin.describe_acls(everything).result())


@contextmanager
def guarded_kafka(directory: Path) -> Iterator[GuardedKafka]:
    """The broker, with nothing allowed to anybody but the administrator."""
    users = " ".join(f'user_{user}="{_password(user)}"' for user in (ADMIN, USER, STRANGER, _BROKER))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="{_BROKER}" password="{_password(_BROKER)}" {users};'
    settings = {
        # The names of the listeners are the embedded Kafka's own: everybody has to log in at both.
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": jaas,
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN};User:{_BROKER}",
        "allow.everyone.if.no.acl.found": "false",
    }
    with EmbeddedKafka(directory, port=0, settings=settings, login=_login(ADMIN)) as kafka:
        yield GuardedKafka(kafka.bootstrap_servers)


def _login(user: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": _password(user),
    }


def _password(user: str) -> str:
    return f"secret-of-{user}"
