"""The words application on the test driver: tables, aggregations and the whole of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from py4j.java_gateway import JavaGateway

from examples.words import topology
from examples.words.aggregations import (
    AGGREGATED,
    AGGREGATIONS,
    COUNTED,
    GROUPINGS,
    REDUCED,
    AlphabetWordAggregate,
    rekeyed,
)
from examples.words.aggregations import define as define_aggregation
from examples.words.caching import SETTINGS, long, short
from examples.words.demo import DICTIONARY, messages
from examples.words.joins import ABBREVIATIONS, ALPHABETS, JOINED, Alphabet
from examples.words.pipeline import config, define
from examples.words.tables import WORDS, global_table, table
from examples.words.windows import WINDOWED
from headrace import Serdes, Window, Windowed
from headrace.testing import TopologyTestDriver
from tests.examples.data import first
from tests.examples.words.running import SECOND, build
from tests.oracle.builder import StreamsBuilder as KafkaStreamsBuilder
from tests.oracle.parity import CACHES, difference
from tests.oracle.scenario import Scenario
from tests.oracle.scenario import pipe as event

GOLDEN = Path(__file__).with_name("topology.txt")
RAW = Serdes.bytes()
SOME_WORDS = [("A", "Apple"), ("B", "Bus"), (None, "Nobody"), ("A", "Alpha"), ("A", "Ant")]


def aggregated(group: str, combine: str) -> TopologyTestDriver:
    driver = TopologyTestDriver(build(partial(define_aggregation, group=group, combine=combine)), config)
    driver.input_topic(WORDS).pipe_all(SOME_WORDS, start=0)
    return driver


# --- tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("draw", "store"), [(table, "words-store"), (global_table, "words-global-store")])
def test_a_table_has_the_latest_word_of_each_key(draw, store: str) -> None:
    with TopologyTestDriver(build(draw)) as driver:
        words = driver.input_topic(WORDS)
        words.pipe_all(SOME_WORDS)
        assert list(driver.store(store).all()) == [("A", "Ant"), ("B", "Bus")]

        words.pipe("A", None)
        assert list(driver.store(store).all()) == [("B", "Bus")]


# --- aggregations ------------------------------------------------------------------------------------------------


def test_words_are_counted_by_letter() -> None:
    with aggregated("by_letter", "count") as driver:
        assert list(driver.store(COUNTED).all()) == [("A", 3), ("B", 1)]
        assert driver.output_topic(COUNTED).read_key_values() == [("A", 1), ("B", 1), ("A", 2), ("A", 3)]


def test_words_are_reduced_to_one_text() -> None:
    with aggregated("by_letter", "reduce") as driver:
        assert driver.store(REDUCED).get("A") == "Apple-Alpha-Ant"
        assert driver.output_topic(REDUCED).read_map() == {"A": "Apple-Alpha-Ant", "B": "Bus"}


def test_words_are_aggregated() -> None:
    with aggregated("by_letter", "aggregate") as driver:
        assert driver.store(AGGREGATED).get("A") == AlphabetWordAggregate("A", ["Apple", "Alpha", "Ant"], 3)
        written = driver.output_topic(AGGREGATED, value=RAW).read_map()
    assert written["A"] == b'{"key":"A","valueList":["Apple","Alpha","Ant"],"runningCount":3}'


@pytest.mark.parametrize("combine", AGGREGATIONS)
def test_a_word_without_a_key_is_left_out(combine: str) -> None:
    with aggregated("by_letter", combine) as driver:
        assert driver.dropped_records.total() == 1


@pytest.mark.parametrize("group", [name for name in GROUPINGS if name != "by_letter"])
def test_a_new_key_needs_a_repartition_which_is_in_the_description(group: str) -> None:
    with aggregated(group, "count") as driver:
        assert driver.output_topic(COUNTED).read_map() == dict.fromkeys(("Apple", "Bus", "Nobody", "Alpha", "Ant"), 1)
        repartitioned = [
            record.key for topic, record in driver.produced() if topic == "words-counted-words-repartition"
        ]
    assert repartitioned == [b"Apple", b"Bus", b"Nobody", b"Alpha", b"Ant"]

    described = str(build(partial(define_aggregation, group=group, combine="count")).describe())
    assert "(topic: counted-words-repartition)" in described
    assert "(topics: [counted-words-repartition])" in described


def test_the_key_that_is_there_needs_none() -> None:
    described = str(build(partial(define_aggregation, group="by_letter", combine="count")).describe())
    assert "repartition" not in described
    assert "repartition" in str(rekeyed().describe())


# --- caching -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("cache on, short interval", [("A", 2), ("B", 1), ("A", 3), ("B", 2)]),
        ("cache on, long interval", [("A", 3), ("B", 2)]),
        ("cache off, short interval", [("A", 1), ("A", 2), ("B", 1), ("A", 3), ("B", 2)]),
        ("cache off, long interval", [("A", 1), ("A", 2), ("B", 1), ("A", 3), ("B", 2)]),
    ],
)
def test_a_cache_holds_updates_back_until_the_next_commit(setting: str, expected: list[tuple[str, int]]) -> None:
    assert SETTINGS[setting].commit_interval in (short, long)
    words_per_commit = 2 if SETTINGS[setting].commit_interval == short else 100
    draw = partial(define_aggregation, group="by_letter", combine="count")
    with TopologyTestDriver(build(draw), SETTINGS[setting], commit=words_per_commit) as driver:
        driver.input_topic(WORDS).pipe_all([(letter, "word") for letter in "AABAB"])
        driver.commit()

        assert driver.output_topic(COUNTED).read_key_values() == expected
        assert dict(driver.store(COUNTED).all()) == {"A": 3, "B": 2}


# --- the application ---------------------------------------------------------------------------------------------


def test_the_application_does_all_of_it() -> None:
    with TopologyTestDriver(topology(), config) as driver:
        driver.input_topic(WORDS).pipe_all(SOME_WORDS, start=0)
        driver.input_topic(ALPHABETS).pipe("A", "A is the first letter in English Alphabets.")
        driver.input_topic(ABBREVIATIONS).pipe("A", "Apple")

        assert dict(driver.store("words-store").all()) == {"A": "Ant", "B": "Bus"}
        assert driver.store(COUNTED).get("A") == 3
        assert driver.store(REDUCED).get("A") == "Apple-Alpha-Ant"
        assert driver.store(AGGREGATED).get("A").runningCount == 3
        assert driver.output_topic(WINDOWED).read_map()[Windowed("A", Window(0, 5 * SECOND))] == 3
        assert driver.output_topic(JOINED).read_values() == [
            Alphabet("Apple", "A is the first letter in English Alphabets.")
        ]


def test_the_demo_sends_what_the_application_reads() -> None:
    sent = first(messages, len(DICTIONARY) + 200)
    with TopologyTestDriver(topology(), config) as driver:
        for message in sent:
            driver.input_topic(message.topic, RAW, RAW).pipe(message.key, message.value)

        assert sum(count for _, count in driver.store(COUNTED).all()) == 100
        assert len(driver.output_topic(JOINED)) == 100
    assert sent == first(messages, len(DICTIONARY) + 200) != first(messages, len(DICTIONARY) + 200, seed=2)


# --- the same as Kafka Streams -----------------------------------------------------------------------------------

EVENTS = [
    event(ALPHABETS, "A", "A is the first letter in English Alphabets.", 0),
    event(WORDS, "A", "Apple", 1_000),
    event(ABBREVIATIONS, "A", "Apple", 2_000),
    event(WORDS, "B", "Bus", 6_000),
    event(WORDS, None, "Nobody", 6_500),
    event(WORDS, "A", "Alpha", 7_000),
    event(ABBREVIATIONS, "B", "Bus", 8_000),
    event(WORDS, "A", "Ant", 9_000),
]


def test_the_topology_is_the_one_that_kafka_streams_describes(gateway: JavaGateway) -> None:
    kafka = KafkaStreamsBuilder(gateway)
    define(kafka)

    described = kafka.build().describe().toString()
    assert str(topology().describe()) == described
    assert GOLDEN.read_text() == described


@pytest.mark.parametrize("cache", CACHES.values(), ids=CACHES.keys())
def test_the_results_are_those_of_kafka_streams(gateway: JavaGateway, cache: int | None) -> None:
    assert difference(gateway, Scenario("words", "application", define, EVENTS), cache) is None


@pytest.mark.parametrize("combine", AGGREGATIONS)
@pytest.mark.parametrize("group", GROUPINGS)
def test_each_aggregation_is_that_of_kafka_streams(gateway: JavaGateway, group: str, combine: str) -> None:
    events = [event(WORDS, letter, word, time) for time, (letter, word) in enumerate(SOME_WORDS)]
    draw = partial(define_aggregation, group=group, combine=combine)

    assert difference(gateway, Scenario("words", f"{combine} {group}", lambda b: draw(b), events), None) is None


@pytest.mark.parametrize("draw", [table, global_table])
def test_each_table_is_that_of_kafka_streams(gateway: JavaGateway, draw) -> None:
    events = [event(WORDS, letter, word, time) for time, (letter, word) in enumerate(SOME_WORDS)]

    assert difference(gateway, Scenario("words", draw.__name__, draw, events), None) is None
