"""The bank on the test driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.java_gateway import JavaGateway

from examples.bank import topology
from examples.bank.generator import PEOPLE, messages
from examples.bank.pipeline import BALANCES, RESULTS, TRANSACTIONS, account, amount, config, define
from headrace.errors import DeserializationFailed
from headrace.testing import TopologyTestDriver
from tests.examples.data import first
from tests.oracle.builder import StreamsBuilder as KafkaStreamsBuilder
from tests.oracle.parity import CACHES, difference
from tests.oracle.scenario import Pipe, Scenario

GOLDEN = Path(__file__).with_name("topology.txt")


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(topology(), config) as driver:
        yield driver


def pay(driver: TopologyTestDriver, *transactions: tuple[str, int]) -> None:
    topic = driver.input_topic(TRANSACTIONS, key=account, value=amount)
    for id, change in transactions:
        topic.pipe(id, change, timestamp=0)


def balances(driver: TopologyTestDriver) -> dict[str, int]:
    return dict(driver.store(BALANCES).all())


def test_transactions_add_up_by_account(driver: TopologyTestDriver) -> None:
    pay(driver, ("alice", 100), ("bob", 5), ("alice", -30))

    assert balances(driver) == {"alice": 70, "bob": 5}


def test_every_new_balance_is_sent(driver: TopologyTestDriver) -> None:
    pay(driver, ("alice", 100), ("bob", 5), ("alice", -30))

    results = driver.output_topic(RESULTS, key=account, value=amount)
    assert results.read_key_values() == [("alice", 100), ("bob", 5), ("alice", 70)]


def test_an_account_can_be_emptied(driver: TopologyTestDriver) -> None:
    pay(driver, ("alice", 100), ("alice", -100))

    assert balances(driver) == {"alice": 0}


def test_what_would_overdraw_an_account_changes_nothing(driver: TopologyTestDriver) -> None:
    pay(driver, ("alice", 100), ("alice", -101), ("alice", -60), ("alice", -60))

    assert balances(driver) == {"alice": 40}


def test_a_transaction_without_account_or_amount_is_ignored(driver: TopologyTestDriver) -> None:
    topic = driver.input_topic(TRANSACTIONS, key=account, value=amount)
    topic.pipe(None, 5)
    topic.pipe("alice", None)

    assert balances(driver) == {}


def test_a_transaction_that_cannot_be_read_stops_the_bank(driver: TopologyTestDriver) -> None:
    topic = driver.input_topic(TRANSACTIONS, key=account, value=account)
    with pytest.raises(DeserializationFailed, match=TRANSACTIONS):
        topic.pipe("alice", "much")


def test_the_generator_repeats_itself_for_a_seed_and_overdraws_nothing(driver: TopologyTestDriver) -> None:
    made = first(messages, 300)
    assert made == first(messages, 300)
    assert made != first(messages, 300, seed=2)

    changes = [(account.deserialize(each.key) or "", amount.deserialize(each.value) or 0) for each in made]
    pay(driver, *changes)
    assert balances(driver).keys() == set(PEOPLE)
    assert min(balances(driver).values()) >= 0
    assert min(change for _, change in changes) < 0


def test_the_topology_is_the_one_that_kafka_streams_describes(gateway: JavaGateway) -> None:
    kafka = KafkaStreamsBuilder(gateway)
    define(kafka)

    described = kafka.build().describe().toString()
    assert str(topology().describe()) == described
    assert GOLDEN.read_text() == described


@pytest.mark.parametrize("cache", CACHES.values(), ids=CACHES.keys())
def test_the_results_are_those_of_kafka_streams(gateway: JavaGateway, cache: int | None) -> None:
    changes = [("alice", 100), ("bob", 5), ("alice", -30), ("bob", -6), ("alice", -70), ("carol", -1)]
    events = [Pipe(TRANSACTIONS, id.encode(), amount.serialize(change), 7) for id, change in changes]

    assert difference(gateway, Scenario("bank", "application", define, events), cache) is None
