"""The settings of Kafka's clients, made in one place from what the user gave.

Headrace talks to Kafka through librdkafka (producer, consumer and admin client). Configurations of Kafka Streams name
SASL and TLS settings as Kafka's Java client does: these names are accepted and translated. A Java setting without a
counterpart is refused, as a connection that is less secure than its settings say would go unnoticed. A setting for one
kind of client is prefixed with `producer.`, `consumer.` or `admin.`, as in Kafka Streams.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.config import StreamsConfig
from headrace.errors import ConfigError

ROLES = ("producer.", "consumer.", "admin.")

_HIDDEN = "[hidden]"
_SECRET = re.compile(
    r"password|secret|jaas\.config|token(?!\.endpoint)|credential|user\.info|oauthbearer\.config"
    r"|ssl\.key\.pem|ssl\.keystore\.key|assertion\.private",
    re.IGNORECASE,
)
_OURS = {
    "group.id": "it is the application_id",
    "transactional.id": "it is made from the application_id",
    "enable.auto.commit": "offsets are committed with the results",
    "auto.offset.reset": "give it to the source: Consumed(offset_reset=…)",
    "isolation.level": "it follows from processing_guarantee",
    "key.deserializer": "serdes do that",
    "value.deserializer": "serdes do that",
    "key.serializer": "serdes do that",
    "value.serializer": "serdes do that",
}

_LARGEST_RECORD = 1_000_000
"""librdkafka's default."""
_DEFAULTS = {
    # A broker that comes back is not among Kafka's brokers for a moment. A client that asks just then knows none any
    # more, and would look at bootstrap.servers again after five minutes.
    "metadata.recovery.rebootstrap.trigger.ms": 30_000,
}


def redact(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with secrets hidden, fit for a log or a message, also those inside of a value."""
    return {
        name: _HIDDEN if _SECRET.search(name) or _SECRET.search(str(value)) else value
        for name, value in settings.items()
    }


@dataclass(frozen=True, repr=False)
class ClientSettings:
    """How to reach a cluster, for each kind of client. Made once; what librdkafka has no counterpart to is refused."""

    bootstrap_servers: str
    given: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, config: StreamsConfig, bootstrap_servers: str | None = None) -> ClientSettings:
        """The settings of an application; `bootstrap_servers` is that of the embedded Kafka if the user gave none."""
        servers = config.bootstrap_servers or bootstrap_servers
        if not servers:
            raise ConfigError("bootstrap_servers is missing: no Kafka was given and the embedded one is not running")
        return cls(servers, config.kafka)

    def __post_init__(self) -> None:
        for name in self.given:
            bare = _without_role(name)
            if bare in _OURS:
                raise ConfigError(f"kafka setting {name!r} is Headrace's own: {_OURS[bare]}. Take it out")
            if bare in ("bootstrap.servers", "metadata.broker.list"):
                raise ConfigError(f"kafka setting {name!r}: give the servers as bootstrap_servers")
        for role in ROLES:
            self._librdkafka(role)

    def __repr__(self) -> str:
        return f"ClientSettings({self.bootstrap_servers!r}, {redact(self.given)!r})"

    @property
    def user(self) -> str | None:
        """The user who logs in; None where a certificate or the network tells who it is."""
        settings = self._librdkafka("admin.")
        user = settings.get("sasl.username") or settings.get("sasl.oauthbearer.client.id")
        return None if user is None else str(user)

    def producer(self, **settings: Any) -> dict[str, Any]:
        """For confluent-kafka's producer; `settings` has Headrace's own, with `_` for `.`."""
        return {**self._librdkafka("producer."), **_dotted(settings)}

    @property
    def largest_record(self) -> int:
        """How many bytes a record may have that the producer sends."""
        return int(self._librdkafka("producer.").get("message.max.bytes", _LARGEST_RECORD))

    def consumer(self, **settings: Any) -> dict[str, Any]:
        """For confluent-kafka's consumer; `settings` has Headrace's own, with `_` for `.`."""
        return {**self._librdkafka("consumer."), **_dotted(settings)}

    def admin(self, **settings: Any) -> dict[str, Any]:
        """For confluent-kafka's admin client; `settings` has Headrace's own, with `_` for `.`."""
        return {**self._librdkafka("admin."), **_dotted(settings)}

    def _librdkafka(self, role: str) -> dict[str, Any]:
        settings = to_librdkafka(_given_for(self.given, role))
        return {**_DEFAULTS, **settings, "bootstrap.servers": self.bootstrap_servers}


def _given_for(given: Mapping[str, Any], role: str) -> dict[str, Any]:
    """The settings that reach one kind of client; those with its prefix take precedence."""
    general = {name: value for name, value in given.items() if not name.startswith(ROLES)}
    return general | {name.removeprefix(role): value for name, value in given.items() if name.startswith(role)}


def _without_role(name: str) -> str:
    for role in ROLES:
        name = name.removeprefix(role)
    return name


def _dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}


# --- from Java's names to librdkafka's -----------------------------------------------------------------------------

_TO_LIBRDKAFKA = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "max.request.size": "message.max.bytes",
}
_JAVA_ONLY = {
    "sasl.login.callback.handler.class",
    "sasl.client.callback.handler.class",
    "sasl.login.class",
    "ssl.enabled.protocols",
    "ssl.protocol",
    "ssl.provider",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation",
    "security.providers",
}
_PEM_HINT = (
    'give the certificates as PEM: "ssl.truststore.type": "PEM" with "ssl.truststore.location", '
    'or "ssl.ca.location" instead. keytool -exportcert -rfc writes PEM'
)


def to_librdkafka(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under librdkafka's names; ConfigError for what it has no counterpart to."""
    settings = {name: value for name, value in given.items() if not name.startswith(("ssl.truststore.", "sasl.jaas."))}
    for java_name, name in _TO_LIBRDKAFKA.items():
        if java_name in given:
            settings.pop(java_name, None)
            settings.setdefault(name, given[java_name])
    if "sasl.jaas.config" in given and not _has(given, "sasl.username", "sasl.oauthbearer.client.id"):
        settings.update(_login_of_jaas(str(given["sasl.jaas.config"])))
    if (
        settings.pop("sasl.login.callback.handler.class", None) is not None
        and "sasl.oauthbearer.method" not in settings
    ):
        raise _untranslatable("sasl.login.callback.handler.class", "librdkafka cannot load a Java class")
    _truststore_to_librdkafka(given, settings)
    _keystore_to_librdkafka(given, settings)
    if given.get("ssl.endpoint.identification.algorithm") == "":
        settings["ssl.endpoint.identification.algorithm"] = "none"
    for name in sorted(_JAVA_ONLY & settings.keys()):
        raise _untranslatable(name, "librdkafka has no counterpart. Take it out")
    return settings


def _login_of_jaas(jaas: str) -> dict[str, Any]:
    """User and password, or what else logs in, out of a line such as `…PlainLoginModule required username="…" …;`."""
    matched = re.match(r"\s*(?:\w+\.)*(\w+)\s+\w+\s*(.*?);\s*$", jaas, re.DOTALL)
    if matched is None:
        raise ConfigError(
            "kafka setting 'sasl.jaas.config' must be like org.apache.kafka.common.security.plain.PlainLoginModule "
            'required username="…" password="…";'
        )
    module = matched[1]
    options = {
        name: re.sub(r"\\(.)", r"\1", quoted if quoted is not None else bare)
        for name, quoted, bare in (
            (found[1], found[2], found[3])
            for found in re.finditer(r'(\S+?)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|(\S+))', matched[2], re.DOTALL)
        )
    }
    names = _JAAS_OPTIONS.get(module)
    if names is None:
        raise _untranslatable("sasl.jaas.config", f"the login module {module} is unknown to librdkafka")
    login = {names[option]: value for option, value in options.items() if option in names}
    if module == "OAuthBearerLoginModule":
        login["sasl.oauthbearer.method"] = "oidc"
    return login


_JAAS_OPTIONS = {
    "PlainLoginModule": {"username": "sasl.username", "password": "sasl.password"},
    "ScramLoginModule": {"username": "sasl.username", "password": "sasl.password"},
    "Krb5LoginModule": {"keyTab": "sasl.kerberos.keytab", "principal": "sasl.kerberos.principal"},
    "OAuthBearerLoginModule": {
        "clientId": "sasl.oauthbearer.client.id",
        "clientSecret": "sasl.oauthbearer.client.secret",
        "scope": "sasl.oauthbearer.scope",
    },
}


def _truststore_to_librdkafka(given: Mapping[str, Any], settings: dict[str, Any]) -> None:
    location = given.get("ssl.truststore.location")
    if location is None or _has(settings, "ssl.ca.location", "ssl.ca.pem"):
        return
    kind = str(given.get("ssl.truststore.type", "JKS")).upper()
    if kind != "PEM":
        raise _untranslatable(
            "ssl.truststore.location", f"librdkafka does not read a truststore of type {kind}; {_PEM_HINT}"
        )
    settings["ssl.ca.location"] = location


def _keystore_to_librdkafka(given: Mapping[str, Any], settings: dict[str, Any]) -> None:
    kind = str(settings.pop("ssl.keystore.type", "JKS" if "ssl.keystore.location" in given else "PEM")).upper()
    if "ssl.keystore.location" not in given or kind == "PKCS12":
        return
    location = settings.pop("ssl.keystore.location")
    settings.pop("ssl.keystore.password", None)
    if _has(settings, "ssl.certificate.location", "ssl.certificate.pem"):
        return
    if kind != "PEM":
        raise _untranslatable(
            "ssl.keystore.location",
            f'librdkafka does not read a keystore of type {kind}; give it as PKCS12 ("ssl.keystore.type": "PKCS12") '
            "or PEM. keytool -importkeystore -deststoretype PKCS12 converts it",
        )
    settings["ssl.certificate.location"] = settings["ssl.key.location"] = location


def _has(settings: Mapping[str, Any], *names: str) -> bool:
    return any(name in settings for name in names)


def _untranslatable(name: str, why: str) -> ConfigError:
    return ConfigError(f"kafka setting {name!r} cannot be used: {why}")
