"""Settings for librdkafka, given under its names or under those of Kafka's Java client."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

import headrace as hr
from headrace.errors import ConfigError
from headrace.kafka.clients import ClientSettings, redact

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OURS = {"metadata.recovery.rebootstrap.trigger.ms": 30_000}
"""What clients get beside what was given."""
KEY = "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n"


def settings(**given: Any) -> ClientSettings:
    return ClientSettings("k:9092", {name.replace("_", "."): value for name, value in given.items()})


def test_settings_reach_every_kind_of_client() -> None:
    config = hr.StreamsConfig(bootstrap_servers="k:9092", kafka={"security.protocol": "SSL", "client.id": "me"})
    made = ClientSettings.of(config, "embedded:1")
    expected = {
        "bootstrap.servers": "k:9092",
        "security.protocol": "SSL",
        "client.id": "me",
        **OURS,
    }
    assert made.admin() == expected
    assert made.producer(linger_ms=5) == {**expected, "linger.ms": 5}
    assert made.consumer(group_id="g") == {**expected, "group.id": "g"}


def test_the_embedded_kafka_is_used_where_no_servers_are_given() -> None:
    assert ClientSettings.of(hr.StreamsConfig(), "embedded:1").bootstrap_servers == "embedded:1"
    with pytest.raises(ConfigError, match="bootstrap_servers is missing"):
        ClientSettings.of(hr.StreamsConfig())


def test_a_jaas_line_becomes_user_and_password() -> None:
    jaas = f'{PLAIN} required\n username="me" password="a \\"b\\" \\\\ ;c";'
    made = settings(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_jaas_config=jaas).admin()
    assert (made["sasl.username"], made["sasl.password"]) == ("me", 'a "b" \\ ;c')
    assert "sasl.jaas.config" not in made


def test_librdkafkas_own_names_stay_as_they_are() -> None:
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "x",
        "ssl.ca.location": "/ca.pem",
        "enable.ssl.certificate.verification": False,
    }
    assert ClientSettings("k:1", given).admin() == OURS | {**given, "bootstrap.servers": "k:1"}


def test_a_login_by_oauth_is_translated() -> None:
    java = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{OAUTH} required clientId="id" clientSecret="shh" scope="all";',
        "sasl.login.callback.handler.class": "org.apache.kafka.….OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
    }
    assert ClientSettings("k:1", java).admin() == OURS | {
        "bootstrap.servers": "k:1",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "id",
        "sasl.oauthbearer.client.secret": "shh",
        "sasl.oauthbearer.scope": "all",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
    }


def test_certificates_in_pem_are_translated() -> None:
    files = settings(
        ssl_truststore_type="PEM",
        ssl_truststore_location="/ca.pem",
        ssl_keystore_type="PEM",
        ssl_keystore_location="/me.pem",
    )
    assert files.admin() == OURS | {
        "bootstrap.servers": "k:9092",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
    }
    inline = settings(
        ssl_truststore_type="PEM",
        ssl_truststore_certificates="CA",
        ssl_keystore_type="PEM",
        ssl_keystore_certificate_chain="CERT",
        ssl_keystore_key=KEY,
    )
    assert inline.admin() == OURS | {
        "bootstrap.servers": "k:9092",
        "ssl.ca.pem": "CA",
        "ssl.certificate.pem": "CERT",
        "ssl.key.pem": KEY,
    }


def test_a_keystore_in_pkcs12_is_read_as_it_is() -> None:
    made = settings(ssl_keystore_type="PKCS12", ssl_keystore_location="/me.p12", ssl_keystore_password="x")
    assert made.admin() == OURS | {
        "bootstrap.servers": "k:9092",
        "ssl.keystore.location": "/me.p12",
        "ssl.keystore.password": "x",
    }


def test_a_truststore_may_stay_beside_certificates_in_pem() -> None:
    made = settings(ssl_truststore_location="/t.jks", ssl_truststore_password="x", ssl_ca_location="/ca.pem")
    assert made.admin() == OURS | {"bootstrap.servers": "k:9092", "ssl.ca.location": "/ca.pem"}


def test_an_empty_algorithm_for_host_names_is_none() -> None:
    assert settings(ssl_endpoint_identification_algorithm="").admin()["ssl.endpoint.identification.algorithm"] == "none"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ssl.truststore.location": "/t.jks"}, "truststore of type JKS.*PEM"),
        ({"ssl.keystore.location": "/k.jks"}, "keystore of type JKS.*PKCS12"),
        ({"ssl.enabled.protocols": "TLSv1.3"}, "'ssl.enabled.protocols' cannot be used.*no counterpart"),
        ({"sasl.jaas.config": "a.b.OtherLoginModule required x=y;"}, "OtherLoginModule is unknown"),
        ({"sasl.jaas.config": "nonsense"}, "must be like"),
        ({"sasl.login.callback.handler.class": "my.Handler"}, "cannot load a Java class"),
        ({"group.id": "g"}, "'group.id' is Headrace's own: it is the application_id"),
        ({"producer.transactional.id": "t"}, "'producer.transactional.id' is Headrace's own"),
        ({"bootstrap.servers": "x"}, "as bootstrap_servers"),
    ],
)
def test_what_librdkafka_has_no_counterpart_to_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ClientSettings("k:9092", given)


def test_a_prefix_addresses_one_kind_of_client() -> None:
    made = ClientSettings(
        "k:9092", {"linger.ms": 1, "producer.linger.ms": 5, "consumer.fetch.min.bytes": 9, "client.id": "me"}
    )
    general = {"bootstrap.servers": "k:9092", "client.id": "me"}
    assert made.admin() == OURS | {**general, "linger.ms": 1}
    assert made.producer() == OURS | {**general, "linger.ms": 5}
    assert made.consumer() == OURS | {**general, "linger.ms": 1, "fetch.min.bytes": 9}


def test_librdkafka_takes_what_is_made_for_it() -> None:
    jaas = f'{SCRAM} required username="me" password="x";'
    made = settings(security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=jaas)
    AdminClient({"log_level": 0, **made.admin()})  # refuses what it does not know


def test_secrets_are_hidden() -> None:
    given = {
        "sasl.password": "shh",
        "ssl.key.password": "shh",
        "producer.sasl.jaas.config": 'X required password="shh";',
        "sasl.oauthbearer.client.secret": "shh",
        "ssl.keystore.key": "shh",
        "ssl.key.pem": "shh",
        "client.id": "me",
        "sasl.oauthbearer.token.endpoint.url": "https://idp",
    }
    shown = redact(given)
    assert "shh" not in str(shown)
    assert (shown["client.id"], shown["sasl.oauthbearer.token.endpoint.url"]) == ("me", "https://idp")
    assert "shh" not in repr(settings(sasl_mechanism="PLAIN", sasl_username="me", sasl_password="shh"))
