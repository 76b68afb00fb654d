"""Every kind of join of the words application on the test driver."""

from __future__ import annotations

from functools import partial

import pytest
from py4j.java_gateway import JavaGateway

from examples.words.joins import ABBREVIATIONS, ALPHABETS, JOINED, JOINS, Alphabet, define, topology
from headrace.errors import TopologyError
from headrace.kafka.partitions import plan_partitions
from headrace.testing import TopologyTestDriver
from tests.oracle.parity import CACHES, difference
from tests.oracle.scenario import Scenario
from tests.oracle.scenario import pipe as event

A = "A is the first letter in English Alphabets."
B = "B is the second letter in English Alphabets."
RECORDS = [
    (ABBREVIATIONS, "A", "Apple", 0),
    (ALPHABETS, "A", A, 3_000),
    (ABBREVIATIONS, "A", "Ant", 6_000),
    (ALPHABETS, "B", B, 7_000),
    (ABBREVIATIONS, "C", "Cat", 8_000),
    (ABBREVIATIONS, "A", "Alpha", 20_000),
    (ABBREVIATIONS, None, "Any", 20_500),
]
"""A description between two abbreviations that are within five seconds of it, one of either alone, and one too late."""

APPLE, ANT, ALPHA = (("A", Alphabet(word, A)) for word in ("Apple", "Ant", "Alpha"))
APPLE_ALONE, CAT_ALONE = ("A", Alphabet("Apple", None)), ("C", Alphabet("Cat", None))
B_ALONE = ("B", Alphabet(None, B))

EXPECTED = {
    "stream_table": [ANT, ALPHA],
    "stream_table_left": [APPLE_ALONE, ANT, CAT_ALONE, ALPHA, (None, Alphabet("Any", None))],
    "stream_global": [ANT, ALPHA, (None, Alphabet("Any", A))],
    "stream_global_left": [APPLE_ALONE, ANT, CAT_ALONE, ALPHA, (None, Alphabet("Any", A))],
    "table_table": [APPLE, ANT, ALPHA],
    "table_table_left": [APPLE_ALONE, APPLE, ANT, CAT_ALONE, ALPHA],
    "table_table_outer": [APPLE_ALONE, APPLE, ANT, B_ALONE, CAT_ALONE, ALPHA],
    "foreign_key": [APPLE, ANT, ALPHA],
    "foreign_key_left": [APPLE_ALONE, APPLE, ANT, CAT_ALONE, ALPHA],
    "stream_stream": [APPLE, ANT],
    "stream_stream_left": [APPLE, ANT, CAT_ALONE, (None, Alphabet("Any", None))],
    "stream_stream_outer": [APPLE, ANT, B_ALONE, CAT_ALONE, (None, Alphabet("Any", None))],
    "repartitioned": [ANT, ALPHA],
}


@pytest.mark.parametrize("join", JOINS)
def test_what_each_join_gives(join: str) -> None:
    with TopologyTestDriver(topology(join)) as driver:
        for topic, key, value, timestamp in RECORDS:
            driver.input_topic(topic).pipe(key, value, timestamp=timestamp)

        assert driver.output_topic(JOINED).read_key_values() == EXPECTED[join]


@pytest.mark.parametrize("cache", CACHES.values(), ids=CACHES.keys())
@pytest.mark.parametrize("join", JOINS)
def test_each_join_is_that_of_kafka_streams(gateway: JavaGateway, join: str, cache: int | None) -> None:
    draw = partial(define, join=join)
    scenario = Scenario("words", join, lambda b: draw(b), [event(*record) for record in RECORDS])

    assert difference(gateway, scenario, cache) is None


def test_streams_are_joined_within_five_seconds_and_not_after() -> None:
    with TopologyTestDriver(topology("stream_stream")) as driver:
        driver.input_topic(ABBREVIATIONS).pipe("A", "Apple", timestamp=10_000)
        for timestamp in (4_999, 5_000, 15_000, 15_001):
            driver.input_topic(ALPHABETS).pipe("A", str(timestamp), timestamp=timestamp)

        joined = driver.output_topic(JOINED).read_values()
    assert [each.description for each in joined] == ["5000", "15000"]


@pytest.mark.parametrize(
    "join", ["stream_table", "stream_table_left", "table_table", "table_table_outer", "stream_stream"]
)
def test_topics_of_different_sizes_cannot_be_joined(join: str) -> None:
    message = (
        "topics that are joined must have the same number of partitions, "
        "but alphabets has 4, alphabets-abbreviations has 2"
    )
    with pytest.raises(TopologyError, match=message) as refused:
        plan_partitions(topology(join), {ABBREVIATIONS: 2, ALPHABETS: 4})
    assert "joins.py:" in str(refused.value)


@pytest.mark.parametrize("join", ["repartitioned", "stream_global", "foreign_key"])
def test_a_repartition_a_global_table_and_a_foreign_key_do_not_need_the_same_size(join: str) -> None:
    plan = plan_partitions(topology(join), {ABBREVIATIONS: 2, ALPHABETS: 4})

    assert plan.sources[ABBREVIATIONS] == 2
    if join == "repartitioned":
        assert plan.repartition == {"abbreviations-repartition": 4}
