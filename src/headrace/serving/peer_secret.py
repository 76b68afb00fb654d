"""The secret that instances sign with where none is configured: made by the first of them, and kept in Kafka.

Whoever may read the topic can act as an instance, as whoever may write the application's topics can do worse.
"""

from __future__ import annotations

import secrets
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from headrace.errors import EnvironmentFailed, KafkaAway
from headrace.kafka.absence import is_away
from headrace.kafka.access import is_refused, on_topics, refused, to_read
from headrace.kafka.clients import ClientSettings
from headrace.kafka.internal_topics import peers_topic
from headrace.kafka.topics import Topics, TopicSpec

_BYTES = 32
_SILENCE_SECONDS = 30.0


def shared_secret(settings: ClientSettings, application_id: str, replication_factor: int = -1) -> bytes:
    """The application's secret: the first one in the topic, so all instances find the same."""
    topic = peers_topic(application_id)
    topics = Topics(settings)
    topics.ensure([TopicSpec(topic, 1, {"cleanup.policy": "compact"}, replication_factor)])
    topics.check_access(on_topics("Read", [topic]) + on_topics("Write", [topic]))
    try:
        found = _first(settings, topic, application_id)
        if found is None:
            _offer(settings, topic)
            found = _first(settings, topic, application_id)
    except KafkaException as error:
        if is_refused(error):
            raise refused(settings, [to_read(error, topic, application_id)]) from error
        kind = KafkaAway if is_away(error) else EnvironmentFailed
        raise kind(
            f"Topic {topic}, which has what instances sign their requests with, cannot be used: {error}. Allow it, or "
            "set HEADRACE_PEER_TOKEN."
        ) from error
    if found is None:
        raise EnvironmentFailed(f"Topic {topic} does not keep what is written to it.")
    return found


def _first(settings: ClientSettings, topic: str, group: str) -> bytes | None:
    """The first secret in the topic. librdkafka wants a group, which is not joined."""
    ours = {"group.id": group, "enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 10}
    consumer = Consumer({"log_level": 0, **settings.consumer(**ours)})
    try:
        consumer.list_topics(topic, _SILENCE_SECONDS)
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + _SILENCE_SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                value: bytes | None = message.value()
                if value:
                    return value
            elif error.code() == KafkaError._PARTITION_EOF:
                return None
            else:
                raise KafkaException(error)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    finally:
        consumer.close()


def _offer(settings: ClientSettings, topic: str) -> None:
    """Writes a new secret, under a key of its own: none is ever compacted away, so the first stays the first."""
    producer = Producer({"log_level": 0, **settings.producer(**{"enable.idempotence": True})})
    producer.produce(topic, secrets.token_bytes(_BYTES), secrets.token_hex(8), 0)
    if producer.flush(_SILENCE_SECONDS):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
