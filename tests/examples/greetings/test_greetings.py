"""The greetings application on the test driver."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway

from examples.greetings import json_pipeline, topology
from examples.greetings.demo import BAD_EVERY, messages
from examples.greetings.errors import (
    BROKEN,
    DEAD_LETTERS,
    HALF_AN_EMOJI,
    TRANSIENT,
    last_resort,
    strict,
    tolerant,
)
from examples.greetings.json_pipeline import Greeting, greeting_json
from examples.greetings.pipeline import GREETINGS, SPANISH, UPPERCASE, VARIANTS, build, watched
from headrace import REPLACE_THREAD, SHUTDOWN_CLIENT, LogAndContinue, Serdes, StreamsConfig
from headrace.errors import DeserializationFailed, ProcessingFailed, ProductionFailed, StreamsError
from headrace.streams import ExceptionResponse
from headrace.task.handlers import EXCEPTION_HEADER, MESSAGE_HEADER, TOPIC_HEADER
from headrace.testing import TopologyTestDriver
from tests.examples.data import first
from tests.oracle.builder import StreamsBuilder as KafkaStreamsBuilder
from tests.oracle.parity import difference
from tests.oracle.scenario import Config, Pipe, Scenario

GOLDEN = Path(__file__).with_name("topology.txt")
RAW = Serdes.bytes()
GOOD = b'{"message": "Good Morning", "timeStamp": "2022-12-04T05:26:31.060293"}'


def results_of(variant: str) -> list[tuple[str, str]]:
    """What a topology makes of a long and a short greeting in English, and a long one in Spanish."""
    with TopologyTestDriver(build(VARIANTS[variant])) as driver:
        driver.input_topic(GREETINGS).pipe("anna", "Hello!")
        driver.input_topic(GREETINGS).pipe("ben", "Hello")
        driver.input_topic(SPANISH).pipe("carmen", "¡Hola!")
        return driver.output_topic(UPPERCASE).read_key_values()


# --- text --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["uppercase", "without_short_ones"])
def test_long_greetings_of_both_topics_go_on_in_upper_case(variant: str) -> None:
    assert results_of(variant) == [("anna", "HELLO!"), ("carmen", "¡HOLA!")]


def test_map_changes_key_and_value() -> None:
    assert results_of("uppercase_keys") == [("ANNA", "HELLO!"), ("BEN", "HELLO"), ("CARMEN", "¡HOLA!")]


def test_flat_map_makes_letters_with_a_new_key() -> None:
    english = [("ANNA", letter) for letter in "Hello!"] + [("BEN", letter) for letter in "Hello"]
    assert results_of("letters") == english + [("CARMEN", letter) for letter in "¡Hola!"]


def test_flat_map_values_makes_letters_with_the_same_key() -> None:
    english = [("anna", letter) for letter in "Hello!"] + [("ben", letter) for letter in "Hello"]
    assert results_of("letters_of_values") == english + [("carmen", letter) for letter in "¡Hola!"]


def test_peek_and_print_see_every_greeting_and_change_none(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[str, str]] = []
    with TopologyTestDriver(build(lambda builder: watched(builder, lambda *record: seen.append(record)))) as driver:
        driver.input_topic(GREETINGS).pipe("anna", "Hello!")
        driver.input_topic(SPANISH).pipe("carmen", "¡Hola!")
        results = driver.output_topic(UPPERCASE).read_key_values()

    assert seen == results == [("anna", "Hello!"), ("carmen", "¡Hola!")]
    assert capsys.readouterr().out == "[greetings]: anna, Hello!\n[greetings]: carmen, ¡Hola!\n"


# --- JSON --------------------------------------------------------------------------------------------------------


def pipe(driver: TopologyTestDriver, *values: bytes) -> None:
    for value in values:
        driver.input_topic(GREETINGS, RAW, RAW).pipe(b"anna", value)


def output(driver: TopologyTestDriver) -> list[Any]:
    return [json.loads(value) for value in driver.output_topic(UPPERCASE, RAW, RAW).read_values()]


def test_the_serde_writes_what_it_reads() -> None:
    greeting = greeting_json.deserialize(GOOD)

    assert greeting == Greeting("Good Morning", datetime(2022, 12, 4, 5, 26, 31, 60293))
    assert greeting_json.serialize(greeting) == GOOD


def test_json_greetings_are_merged_and_shouted_too() -> None:
    with TopologyTestDriver(json_pipeline.topology(), strict) as driver:
        pipe(driver, GOOD, GOOD.replace(b"Good Morning", b"Hello"))
        driver.input_topic(SPANISH).pipe("carmen", Greeting("¡Buenos días!", datetime(2022, 12, 4)))

        assert output(driver) == [
            {"message": "GOOD MORNING", "timeStamp": "2022-12-04T05:26:31.060293"},
            {"message": "¡BUENOS DÍAS!", "timeStamp": "2022-12-04T00:00:00"},
        ]


# --- errors ------------------------------------------------------------------------------------------------------

BAD = {
    "broken JSON": (
        BROKEN,
        "deserialization_exception_handler",
        "JSONDecodeError",
        "Unterminated string",
        DeserializationFailed,
    ),
    "an error of the topology": (
        TRANSIENT,
        "processing_exception_handler",
        "ConnectionError",
        "Transient Error",
        ProcessingFailed,
    ),
    "a value that cannot be written": (
        HALF_AN_EMOJI,
        "production_exception_handler",
        "UnicodeEncodeError",
        "surrogates not allowed",
        ProductionFailed,
    ),
}
bad_records = pytest.mark.parametrize(
    ("record", "handler", "exception", "message", "failure"), BAD.values(), ids=BAD.keys()
)


@bad_records
def test_a_tolerant_application_sends_what_goes_wrong_to_the_dead_letters(
    record: bytes, handler: str, exception: str, message: str, failure: type[StreamsError]
) -> None:
    with TopologyTestDriver(json_pipeline.topology(), tolerant) as driver:
        pipe(driver, GOOD, record, GOOD)

        assert [each["message"] for each in output(driver)] == ["GOOD MORNING"] * 2
        (letter,) = driver.output_topic(DEAD_LETTERS, RAW, RAW).read_all()
    headers = {name: (content or b"").decode() for name, content in letter.headers}
    assert (letter.key, letter.value) == (b"anna", record)
    assert headers[EXCEPTION_HEADER].endswith(exception)
    assert message in headers[MESSAGE_HEADER]
    assert headers[TOPIC_HEADER] == GREETINGS


@bad_records
def test_the_handler_of_its_kind_is_the_one_that_is_asked(
    record: bytes, handler: str, exception: str, message: str, failure: type[StreamsError]
) -> None:
    with TopologyTestDriver(json_pipeline.topology(), StreamsConfig(**{handler: LogAndContinue})) as driver:
        pipe(driver, record, GOOD)

        assert [each["message"] for each in output(driver)] == ["GOOD MORNING"]


@bad_records
def test_a_strict_application_stops_and_the_last_resort_is_asked(
    record: bytes, handler: str, exception: str, message: str, failure: type[StreamsError]
) -> None:
    with pytest.raises(failure) as stopped, TopologyTestDriver(json_pipeline.topology(), strict) as driver:
        pipe(driver, record)

    expected: ExceptionResponse = REPLACE_THREAD if failure is ProcessingFailed else SHUTDOWN_CLIENT
    assert last_resort(stopped.value) is expected


def test_the_demo_sends_greetings_in_both_languages_and_every_kind_of_bad_one() -> None:
    sent = first(messages, 6 * BAD_EVERY)
    with TopologyTestDriver(json_pipeline.topology(), tolerant) as driver:
        for message in sent:
            driver.input_topic(message.topic, RAW, RAW).pipe(message.key, message.value)

        letters = driver.output_topic(DEAD_LETTERS, RAW, RAW).read_values()
        shouted = [each["message"] for each in output(driver)]
    assert letters == [BROKEN, TRANSIENT, HALF_AN_EMOJI] * 2
    assert {"GOOD MORNING", "¡BUENOS DÍAS!"} <= set(shouted)
    assert min(map(len, shouted)) > 5
    assert first(messages, 3)[0].key == sent[0].key


# --- the same as Kafka Streams -----------------------------------------------------------------------------------


def test_the_topology_is_the_one_that_kafka_streams_describes(gateway: JavaGateway) -> None:
    kafka = KafkaStreamsBuilder(gateway)
    VARIANTS["uppercase"](kafka)

    described = kafka.build().describe().toString()
    assert str(topology().describe()) == described
    assert GOLDEN.read_text() == described


def test_the_topology_on_json_is_the_same() -> None:
    assert str(json_pipeline.topology().describe()) == GOLDEN.read_text()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_results_are_those_of_kafka_streams(gateway: JavaGateway, variant: str) -> None:
    events = [
        Pipe(GREETINGS, b"anna", b"Hello!", 1),
        Pipe(SPANISH, b"carmen", "¡Hola!".encode(), 2),
        Pipe(GREETINGS, b"ben", b"Hello", 3),
    ]
    draw = (lambda b: watched(b, lambda *_: None)) if variant == "watched" else VARIANTS[variant]
    scenario = Scenario("greetings", variant, draw, events)

    assert difference(gateway, scenario, None) is None


def test_what_goes_wrong_goes_where_kafka_streams_sends_it(gateway: JavaGateway) -> None:
    events = [Pipe(GREETINGS, b"anna", value, 1) for value in (GOOD, BROKEN, TRANSIENT, GOOD)]
    settings = Config(deserialization="continue", processing="continue", dead_letter_topic=DEAD_LETTERS)

    assert difference(gateway, Scenario("greetings", "errors", json_pipeline.define, events, settings), None) is None
