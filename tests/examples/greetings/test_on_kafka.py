"""The greetings application on Kafka and Spark."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from examples.greetings import topology
from examples.greetings.errors import BROKEN, DEAD_LETTERS, HALF_AN_EMOJI, TRANSIENT, application, strict, tolerant
from examples.greetings.json_pipeline import Greeting, shout
from examples.greetings.pipeline import GREETINGS, SPANISH, UPPERCASE, config
from headrace import Streams
from headrace.errors import DeserializationFailed
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import TopicSpec
from headrace.task.handlers import TOPIC_HEADER
from tests.examples.on_kafka import Broker

pytestmark = pytest.mark.acceptance

_PATIENCE_SECONDS = 600.0
NOTE = '{{"message": "{}", "timeStamp": "2022-12-04T05:26:31.060293"}}'


@pytest.fixture
def broker(embedded_kafka: EmbeddedKafka, spark: SparkContext, tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(embedded_kafka.bootstrap_servers, tmp_path)
    with broker.topics(TopicSpec(name, 1) for name in (GREETINGS, SPANISH, UPPERCASE, DEAD_LETTERS)):
        yield broker


def shouted(broker: Broker) -> list[str]:
    return sorted(json.loads(value or b"")["message"] for _, value, *_ in broker.read(UPPERCASE))


def test_greetings_are_merged_and_in_upper_case(broker: Broker) -> None:
    broker.send(GREETINGS, ("anna", "Good Morning!"), ("ben", "Hello"))
    broker.send(SPANISH, ("carmen", "¡Buenos días!"))
    with Streams(topology(), broker.config(config)) as streams:
        streams.process_all_available()

    written = {key: (value or b"").decode() for key, value, *_ in broker.read(UPPERCASE)}
    assert written == {b"anna": "GOOD MORNING!", b"carmen": "¡BUENOS DÍAS!"}


def test_what_goes_wrong_is_in_the_dead_letter_topic(broker: Broker) -> None:
    broker.send(GREETINGS, ("anna", BROKEN), ("ben", NOTE.format("Good Morning")), ("carmen", TRANSIENT))
    broker.send(SPANISH, ("diego", HALF_AN_EMOJI), ("emma", NOTE.format("¡Buenos días!")))
    with application(broker.config(tolerant)) as streams:
        streams.process_all_available()

    assert shouted(broker) == ["GOOD MORNING", "¡BUENOS DÍAS!"]
    letters = {key: (value, dict(headers)[TOPIC_HEADER]) for key, value, _, headers in broker.read(DEAD_LETTERS)}
    assert letters == {
        b"anna": (BROKEN, GREETINGS.encode()),
        b"carmen": (TRANSIENT, GREETINGS.encode()),
        b"diego": (HALF_AN_EMOJI, SPANISH.encode()),
    }


def test_the_last_resort_tries_again_until_a_transient_error_has_passed(broker: Broker, tmp_path: Path) -> None:
    broker.send(GREETINGS, ("anna", NOTE.format("Good Morning")), ("ben", TRANSIENT))
    streams = application(broker.config(strict), functools.partial(shout_from_the_second_time_on, tmp_path / "tried"))
    with streams:
        streams.process_all_available()
        assert streams.state == "RUNNING"

    assert (tmp_path / "tried").exists()
    assert shouted(broker) == ["GOOD MORNING", "TRANSIENT ERROR"]


def test_the_last_resort_ends_the_application_for_anything_else(broker: Broker) -> None:
    broker.send(GREETINGS, ("anna", NOTE.format("Good Morning")), ("ben", BROKEN))
    streams = application(broker.config(strict))
    with pytest.raises(DeserializationFailed, match="Unterminated string"), streams:
        streams.wait(_PATIENCE_SECONDS)

    assert streams.state == "ERROR"
    assert shouted(broker) == []


def shout_from_the_second_time_on(tried: Path, greeting: Greeting) -> Greeting:
    """As `shout`, with a service that answers again after a first failure."""
    if greeting.message != "Transient Error":
        return shout(greeting)
    if not tried.exists():
        tried.touch()
        return shout(greeting)
    return Greeting(greeting.message.upper(), greeting.time_stamp)
