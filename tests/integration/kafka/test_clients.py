"""Settings for librdkafka and for Kafka's Java client, from one dict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

import headrace as hr
from headrace.errors import ConfigError
from headrace.kafka.clients import ClientSettings, redact

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
KEY = "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n"


def settings(**given: Any) -> ClientSettings:
    return ClientSettings("k:9092", {name.replace("_", "."): value for name, value in given.items()})


def test_what_both_clients_know_is_handed_to_both() -> None:
    config = hr.StreamsConfig(bootstrap_servers="k:9092", kafka={"security.protocol": "SSL", "client.id": "me"})
    made = ClientSettings.of(config, "embedded:1")
    expected = {"bootstrap.servers": "k:9092", "security.protocol": "SSL", "client.id": "me"}
    assert made.admin() == expected
    assert made.producer(linger_ms=5) == {**expected, "linger.ms": 5}
    assert made.consumer(group_id="g") == {**expected, "group.id": "g"}
    assert made.spark() == {f"kafka.{name}": value for name, value in expected.items()}


def test_the_embedded_kafka_is_used_where_no_servers_are_given() -> None:
    assert ClientSettings.of(hr.StreamsConfig(), "embedded:1").bootstrap_servers == "embedded:1"
    with pytest.raises(ConfigError, match="bootstrap_servers is missing"):
        ClientSettings.of(hr.StreamsConfig())


def test_a_jaas_line_becomes_user_and_password() -> None:
    jaas = f'{PLAIN} required\n username="me" password="a \\"b\\" \\\\ ;c";'
    made = settings(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_jaas_config=jaas)
    rd = made.admin()
    assert (rd["sasl.username"], rd["sasl.password"]) == ("me", 'a "b" \\ ;c')
    assert "sasl.jaas.config" not in rd
    assert made.spark()["kafka.sasl.jaas.config"] == jaas


def test_user_and_password_become_a_jaas_line_and_back() -> None:
    made = settings(sasl_mechanisms="SCRAM-SHA-512", sasl_username="me", sasl_password='p"\\w')
    java = made.spark()
    assert java["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert java["kafka.sasl.jaas.config"] == f'{SCRAM} required username="me" password="p\\"\\\\w";'
    assert not [name for name in java if "username" in name or "sasl.password" in name]
    again = settings(sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=java["kafka.sasl.jaas.config"])
    assert again.admin()["sasl.password"] == 'p"\\w'


def test_oauth_goes_both_ways() -> None:
    rd_names = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "id",
        "sasl.oauthbearer.client.secret": "shh",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
    }
    java = ClientSettings("k:1", rd_names).spark()
    assert 'clientId="id" clientSecret="shh"' in java["kafka.sasl.jaas.config"]
    assert java["kafka.sasl.login.callback.handler.class"].endswith("OAuthBearerLoginCallbackHandler")
    back = ClientSettings(
        "k:1", {name.removeprefix("kafka."): v for name, v in java.items() if "bootstrap" not in name}
    )
    assert back.admin() == {**rd_names, "bootstrap.servers": "k:1"}


def test_certificates_in_pem_go_both_ways(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("CA")
    java = settings(ssl_truststore_type="PEM", ssl_truststore_location=str(ca))
    assert java.admin() == {"bootstrap.servers": "k:9092", "ssl.ca.location": str(ca)}

    (tmp_path / "me.pem").write_text("CERT")
    (tmp_path / "me.key").write_text(KEY)
    rd = settings(
        ssl_ca_location=str(ca),
        ssl_certificate_location=str(tmp_path / "me.pem"),
        ssl_key_location=str(tmp_path / "me.key"),
    )
    assert rd.spark() == {
        "kafka.bootstrap.servers": "k:9092",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(ca),
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "CERT",
        "kafka.ssl.keystore.key": KEY,
    }
    inline = settings(ssl_truststore_type="PEM", ssl_truststore_certificates="CA", ssl_keystore_key=KEY)
    assert (inline.admin()["ssl.ca.pem"], inline.admin()["ssl.key.pem"]) == ("CA", KEY)


def test_a_keystore_in_pkcs12_serves_both() -> None:
    made = settings(ssl_keystore_type="PKCS12", ssl_keystore_location="/me.p12", ssl_keystore_password="x")
    assert made.admin() == {
        "bootstrap.servers": "k:9092",
        "ssl.keystore.location": "/me.p12",
        "ssl.keystore.password": "x",
    }
    assert made.spark()["kafka.ssl.keystore.type"] == "PKCS12"


def test_no_check_of_host_names_is_said_in_each_clients_way() -> None:
    assert settings(ssl_endpoint_identification_algorithm="").admin()["ssl.endpoint.identification.algorithm"] == "none"
    java = settings(ssl_endpoint_identification_algorithm="none").spark()
    assert java["kafka.ssl.endpoint.identification.algorithm"] == ""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ssl.truststore.location": "/t.jks"}, "truststore of type JKS.*PEM"),
        ({"ssl.keystore.location": "/k.jks"}, "keystore of type JKS.*PKCS12"),
        ({"ssl.enabled.protocols": "TLSv1.3"}, r"name it java\.ssl\.enabled\.protocols"),
        ({"enable.ssl.certificate.verification": False}, r"name it librdkafka\.enable\.ssl"),
        ({"ssl.crl.location": "/crl"}, r"no counterpart"),
        ({"sasl.jaas.config": "a.b.OtherLoginModule required x=y;"}, "OtherLoginModule is unknown"),
        ({"sasl.jaas.config": "nonsense"}, "must be like"),
        ({"sasl.login.callback.handler.class": "my.Handler"}, "cannot load a Java class"),
        ({"sasl.username": "me", "sasl.mechanism": "GSSAPI"}, "needs 'sasl.mechanism' PLAIN"),
        ({"ssl.certificate.pem": "C"}, "go together"),
        ({"ssl.certificate.pem": "C", "ssl.key.pem": "-----BEGIN RSA PRIVATE KEY-----"}, "openssl pkcs8"),
        ({"ssl.certificate.location": "/no/such.pem", "ssl.key.pem": KEY}, "/no/such.pem cannot be read"),
        ({"ssl.ca.location": "/"}, "not a directory"),
        ({"group.id": "g"}, "'group.id' is Headrace's own: it is the application_id"),
        ({"producer.transactional.id": "t"}, "'producer.transactional.id' is Headrace's own"),
        ({"bootstrap.servers": "x"}, "as bootstrap_servers"),
    ],
)
def test_what_cannot_be_said_to_both_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ClientSettings("k:9092", given)


def test_a_prefix_addresses_one_client_alone() -> None:
    made = ClientSettings(
        "k:9092",
        {
            "ssl.truststore.location": "/t.jks",
            "librdkafka.ssl.ca.location": "/ca.pem",
            "java.ssl.enabled.protocols": "TLSv1.3",
            "producer.linger.ms": 5,
            "consumer.fetch.min.bytes": 9,
        },
    )
    assert made.admin() == {"bootstrap.servers": "k:9092", "ssl.ca.location": "/ca.pem"}
    assert made.producer()["linger.ms"] == 5
    assert made.consumer()["fetch.min.bytes"] == 9
    assert made.spark() == {
        "kafka.bootstrap.servers": "k:9092",
        "kafka.ssl.truststore.location": "/t.jks",
        "kafka.ssl.enabled.protocols": "TLSv1.3",
        "kafka.fetch.min.bytes": "9",
    }


def test_librdkafka_takes_what_is_made_for_it() -> None:
    jaas = f'{SCRAM} required username="me" password="x";'
    made = settings(security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=jaas)
    AdminClient({"log_level": 0, **made.admin()})  # refuses what it does not know


def test_secrets_are_hidden() -> None:
    given = {
        "sasl.password": "shh",
        "ssl.key.password": "shh",
        "java.sasl.jaas.config": 'X required password="shh";',
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
