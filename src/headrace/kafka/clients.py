"""The settings of Kafka's clients, made in one place from what the user gave.

Headrace talks to Kafka through two clients: librdkafka (producer, consumer and admin in Python) and Kafka's own Java
client (Spark's connector). They agree on most names; where they do not, a setting is given under either name and
translated for the other. What has no counterpart is refused, as a connection that is less secure in one of the clients
than in the other would go unnoticed. A setting for one of them alone is prefixed with `librdkafka.` or `java.`; one
for a kind of client with `producer.`, `consumer.` or `admin.`, as in Kafka Streams.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.config import StreamsConfig
from headrace.errors import ConfigError

LIBRDKAFKA = "librdkafka."
JAVA = "java."
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


def redact(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with secrets hidden, fit for a log or a message."""
    return {name: _HIDDEN if _SECRET.search(name) else value for name, value in settings.items()}


@dataclass(frozen=True, repr=False)
class ClientSettings:
    """How to reach a cluster, for each of the clients. Made once; what cannot be said to one of them is refused."""

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
            bare = _without_prefixes(name)
            if bare in _OURS:
                raise ConfigError(f"kafka setting {name!r} is Headrace's own: {_OURS[bare]}. Take it out")
            if bare in ("bootstrap.servers", "metadata.broker.list"):
                raise ConfigError(f"kafka setting {name!r}: give the servers as bootstrap_servers")
        self.spark()
        for role in ROLES:
            self._librdkafka(role)

    def __repr__(self) -> str:
        return f"ClientSettings({self.bootstrap_servers!r}, {redact(self.given)!r})"

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

    def spark(self) -> dict[str, str]:
        """Options for Spark's Kafka source, `kafka.` included."""
        settings = {**to_java(_given_for(self.given, "consumer.", JAVA)), "bootstrap.servers": self.bootstrap_servers}
        return {f"kafka.{name}": _java_text(value) for name, value in settings.items()}

    def _librdkafka(self, role: str) -> dict[str, Any]:
        settings = to_librdkafka(_given_for(self.given, role, LIBRDKAFKA))
        return {**settings, "bootstrap.servers": self.bootstrap_servers}


def _given_for(given: Mapping[str, Any], role: str, client: str) -> dict[str, Any]:
    """The settings that reach one client in one role: the more closely one is addressed, the more it counts."""
    settings: dict[str, Any] = {}
    for prefix in ("", role, client, client + role, role + client):
        for name, value in given.items():
            bare = _without_prefixes(name)
            if name == prefix + bare:
                settings[bare] = value
    return settings


def _without_prefixes(name: str) -> str:
    for prefix in (LIBRDKAFKA, JAVA, *ROLES, LIBRDKAFKA, JAVA):
        name = name.removeprefix(prefix)
    return name


def _dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def _java_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- for librdkafka ----------------------------------------------------------------------------------------------

_TO_LIBRDKAFKA = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
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
    'or "librdkafka.ssl.ca.location" beside it. keytool -exportcert -rfc writes PEM'
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
        raise _untranslatable("sasl.login.callback.handler.class", "the Python clients cannot load a Java class")
    _truststore_to_librdkafka(given, settings)
    _keystore_to_librdkafka(given, settings)
    if given.get("ssl.endpoint.identification.algorithm") == "":
        settings["ssl.endpoint.identification.algorithm"] = "none"
    for name in sorted(_JAVA_ONLY & settings.keys()):
        raise _untranslatable(name, f"librdkafka has no counterpart; for Spark's connector alone, name it {JAVA}{name}")
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


# --- for Java ----------------------------------------------------------------------------------------------------

_TO_JAVA = {
    "sasl.mechanisms": "sasl.mechanism",
    "broker.address.ttl": None,
    "log_level": None,
    "debug": None,
}
_LIBRDKAFKA_SECURITY = {
    "sasl.username",
    "sasl.password",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.kerberos.keytab",
    "sasl.kerberos.principal",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
}
_JAVA_SECURITY = re.compile(
    r"security\.protocol|security\.providers"
    r"|sasl\.(mechanism|jaas\.config|login\..*|client\.callback\..*"
    r"|kerberos\.(service\.name|kinit\.cmd|min\.time.*|ticket\..*)|oauthbearer\.(token\.endpoint\.url|jwks\..*|scope\..*"
    r"|sub\..*|expected\..*|clock\..*|header\..*))"
    r"|ssl\.(protocol|provider|enabled\.protocols|cipher\.suites|engine\..*|key\.password|keymanager\.algorithm"
    r"|keystore\..*|truststore\..*|trustmanager\.algorithm|secure\.random\..*|endpoint\.identification\.algorithm)"
)


def to_java(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under the Java client's names; ConfigError for what it has no counterpart to."""
    settings: dict[str, Any] = {}
    for name, value in given.items():
        if name in _LIBRDKAFKA_SECURITY:
            continue
        java_name = _TO_JAVA.get(name, name)
        if java_name is None:
            continue
        if java_name.startswith(("ssl.", "sasl.", "enable.ssl", "enable.sasl")) and not _JAVA_SECURITY.fullmatch(
            java_name
        ):
            raise _untranslatable(
                name,
                f"Kafka's Java client has no counterpart; for the Python clients alone, name it {LIBRDKAFKA}{name}",
            )
        settings[java_name] = value
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        settings["ssl.endpoint.identification.algorithm"] = ""
    if "sasl.jaas.config" not in settings:
        settings.update(_login_to_java(given, str(settings.get("sasl.mechanism", "GSSAPI")).upper()))
    if not _has(settings, "ssl.truststore.location", "ssl.truststore.certificates"):
        settings.update(_authorities_to_java(given))
    if not _has(settings, "ssl.keystore.location", "ssl.keystore.key"):
        settings.update(_certificate_to_java(given))
    return settings


def _login_to_java(given: Mapping[str, Any], mechanism: str) -> dict[str, Any]:
    security = "org.apache.kafka.common.security"
    if "sasl.username" in given:
        modules = {"PLAIN": "plain.PlainLoginModule"}
        if mechanism.startswith("SCRAM-"):
            modules[mechanism] = "scram.ScramLoginModule"
        if mechanism not in modules:
            raise ConfigError(
                f"kafka setting 'sasl.username' needs 'sasl.mechanism' PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, "
                f"not {mechanism}"
            )
        login = {"username": given["sasl.username"], "password": given.get("sasl.password", "")}
        return {"sasl.jaas.config": _jaas(f"{security}.{modules[mechanism]}", login)}
    if "sasl.oauthbearer.client.id" in given:
        login = {
            "clientId": given["sasl.oauthbearer.client.id"],
            "clientSecret": given.get("sasl.oauthbearer.client.secret", ""),
        }
        if "sasl.oauthbearer.scope" in given:
            login["scope"] = given["sasl.oauthbearer.scope"]
        return {
            "sasl.jaas.config": _jaas(f"{security}.oauthbearer.OAuthBearerLoginModule", login),
            "sasl.login.callback.handler.class": f"{security}.oauthbearer.OAuthBearerLoginCallbackHandler",
        }
    if "sasl.kerberos.keytab" in given:
        login = {
            "useKeyTab": "true",
            "storeKey": "true",
            "keyTab": given["sasl.kerberos.keytab"],
            "principal": given.get("sasl.kerberos.principal", ""),
        }
        return {"sasl.jaas.config": _jaas("com.sun.security.auth.module.Krb5LoginModule", login)}
    return {}


def _jaas(module: str, options: Mapping[str, Any]) -> str:
    listed = " ".join(f'{name}="{_quoted(str(value))}"' for name, value in options.items())
    return f"{module} required {listed};"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _authorities_to_java(given: Mapping[str, Any]) -> dict[str, Any]:
    if "ssl.ca.pem" in given:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": given["ssl.ca.pem"]}
    location = given.get("ssl.ca.location")
    if location is None or location == "probe":
        return {}
    if Path(str(location)).is_dir():
        raise _untranslatable("ssl.ca.location", "Kafka's Java client reads a file with certificates, not a directory")
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": location}


def _certificate_to_java(given: Mapping[str, Any]) -> dict[str, Any]:
    chain = _pem(given, "ssl.certificate")
    key = _pem(given, "ssl.key")
    if chain is None and key is None:
        return {}
    if chain is None or key is None:
        raise ConfigError(
            "kafka settings: a client's certificate and its key (ssl.certificate.…, ssl.key.…) go together"
        )
    if "PRIVATE KEY" in key and not re.search(r"BEGIN (ENCRYPTED )?PRIVATE KEY", key):
        raise _untranslatable(
            "ssl.key.location",
            "Kafka's Java client reads keys in PKCS #8 alone: openssl pkcs8 -topk8 -in old.key -out new.key",
        )
    return {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}


def _pem(given: Mapping[str, Any], name: str) -> str | None:
    if (text := given.get(f"{name}.pem")) is not None:
        return str(text)
    if (location := given.get(f"{name}.location")) is None:
        return None
    try:
        return Path(str(location)).read_text()
    except OSError as error:
        raise ConfigError(f"kafka setting '{name}.location': {location} cannot be read: {error.strerror}") from None


def _has(settings: Mapping[str, Any], *names: str) -> bool:
    return any(name in settings for name in names)


def _untranslatable(name: str, why: str) -> ConfigError:
    return ConfigError(f"kafka setting {name!r} cannot be given to all clients alike: {why}")
