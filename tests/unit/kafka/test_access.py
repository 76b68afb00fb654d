"""What an application that Kafka refuses something says."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from headrace.kafka.access import CLUSTER, GROUP, TRANSACTIONAL_ID, Grant, is_refused, on_topics, refused, to_read
from headrace.kafka.clients import ClientSettings

ADD = "  kafka-acls.sh --bootstrap-server k:1 --add --allow-principal User"


def test_the_error_names_what_is_missing_the_user_and_the_commands() -> None:
    settings = ClientSettings("k:1", {"sasl.mechanism": "PLAIN", "sasl.username": "shop", "sasl.password": "x"})
    missing = [*on_topics("Read", ["a", "b"]), *on_topics("Write", ["a"]), Grant("Write", TRANSACTIONAL_ID, "app")]
    first, *commands = str(refused(settings, [*missing, *missing])).splitlines()
    what = "Read on topic a, Read on topic b, Write on topic a, Write on transactional id app"
    assert first.startswith(f"Kafka at k:1 does not allow user shop {what}. To allow it")
    assert commands == [
        f"{ADD}:shop --operation Read --operation Write --topic a",
        f"{ADD}:shop --operation Read --topic b",
        f"{ADD}:shop --operation Write --transactional-id app",
    ]


def test_a_user_that_the_settings_do_not_name_is_left_open() -> None:
    first, command = str(refused(ClientSettings("k:1"), [Grant("IdempotentWrite", CLUSTER)])).splitlines()
    assert "does not allow the user of the application IdempotentWrite on cluster. To allow it" in first
    assert command == f"{ADD}:… --operation IdempotentWrite --cluster"


def test_a_login_by_oauth_names_its_client() -> None:
    given = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.client.id": "shop"}
    assert ClientSettings("k:1", given).user == "shop"


def test_refusals_are_told_from_other_errors() -> None:
    topic, group = KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED
    assert is_refused(KafkaException(KafkaError(topic)))
    assert is_refused(KafkaError(group))
    assert not is_refused(KafkaError(KafkaError._TIMED_OUT))
    assert to_read(KafkaError(group), "t", "g") == Grant("Read", GROUP, "g")
    assert [to_read(KafkaError(topic), "t", "g")] == on_topics("Read", ["t"])
