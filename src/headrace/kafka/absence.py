"""Kafka not answering: which errors of librdkafka say so, and waiting until it answers again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from headrace.kafka.clients import ClientSettings

logger = logging.getLogger(__name__)

_PROBE_SECONDS = 2.0
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 1.0

_MOVING = (
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "NOT_COORDINATOR",
    # A broker that has just come back, or a leader that has just been elected.
    "UNKNOWN_LEADER_EPOCH",
    "FENCED_LEADER_EPOCH",
    "OFFSET_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
)
_AWAY = (
    *_MOVING,
    "_TRANSPORT",
    "_ALL_BROKERS_DOWN",
    "_RESOLVE",
    "_TIMED_OUT",
    "_TIMED_OUT_QUEUE",
    "_MSG_TIMED_OUT",
    "_WAIT_COORD",
    "_RETRY",
    "REQUEST_TIMED_OUT",
    "NETWORK_EXCEPTION",
    "BROKER_NOT_AVAILABLE",
    "CONCURRENT_TRANSACTIONS",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
)


def is_away(error: Any) -> bool:
    """Whether a KafkaError or KafkaException of librdkafka says that Kafka does not answer."""
    return is_one_of(error, _AWAY)


def is_moving(error: Any) -> bool:
    """Whether it says that a leader or a coordinator is on its way: the same question will be answered soon."""
    return is_one_of(error, _MOVING)


def is_one_of(error: Any, names: tuple[str, ...]) -> bool:
    """Whether a KafkaError or KafkaException has one of these codes."""
    from confluent_kafka import KafkaError, KafkaException

    if isinstance(error, KafkaException):
        error = error.args[0] if error.args else None
    return isinstance(error, KafkaError) and error.code() in {getattr(KafkaError, name) for name in names}


def await_kafka(settings: ClientSettings, given_up: Callable[[], bool]) -> bool:
    """Waits until Kafka answers; False if it was given up before."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    pause = _FIRST_PAUSE
    while not given_up():
        # A new client each time: one that was told of no brokers has nobody to ask.
        admin = AdminClient({"log_level": 0, **settings.admin()})
        try:
            if admin.list_topics(timeout=_PROBE_SECONDS).brokers:
                return True
        except KafkaException as error:
            logger.debug("Kafka at %s: %s", settings.bootstrap_servers, error)
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
    return False
