"""An application under a user with the ACLs of docs/hardening.md, and what happens where one of them is missing."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from pyspark import SparkContext

from headrace import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    Streams,
    StreamsBuilder,
    StreamsConfig,
    TimeWindows,
    Topology,
)
from headrace.cli.dead_letters import read_dead_letters
from headrace.cli.reset import reset
from headrace.cli.terminal import Terminal
from headrace.errors import EnvironmentFailed, UnknownTopicError
from headrace.kafka.topics import Topics, TopicSpec
from headrace.serving.config import ServingConfig
from headrace.serving.membership import instances_group
from headrace.spark.commit import TransactionalCommitter
from tests.spark.guarded_kafka import (
    ADMIN,
    STRANGER,
    USER,
    Acl,
    GuardedKafka,
    acls_of_commands,
    acls_of_table,
    guarded_kafka,
)
from tests.spark.lab import await_that
from tests.spark.running import read_all

TEXT, LONG = Serdes.string(), Serdes.long()
PARTITIONS = 2
PATIENCE = 300.0
ACLS = acls_of_table()
DELETES = "Delete"
NEEDED = [acl for acl in ACLS if acl.operation != DELETES and acl.name != "customers"]
"""What an application does not run without; of two source topics one."""


class Shop:
    """The application of the page's example, under any application id."""

    def __init__(self, kafka: GuardedKafka, directory: Path, application_id: str) -> None:
        self.application_id = application_id
        self.kafka = kafka
        self._directory = directory
        self._settings = kafka.settings(ADMIN)
        ours = self._settings.producer(enable_idempotence=True, partitioner="murmur2_random")
        self._producer = Producer({"log_level": 0, **ours})
        names = [self.topic(name) for name in ("placed", "customers", "invoices")]
        Topics(self._settings).create([TopicSpec(name, PARTITIONS) for name in names])

    def topic(self, name: str) -> str:
        """One of its source and output topics."""
        return name if self.application_id == "orders" else f"{self.application_id}.{name}"

    def named(self, acl: Acl) -> Acl:
        """An ACL of the page for this application."""
        if acl.name.startswith("orders"):
            return replace(acl, name=acl.name.replace("orders", self.application_id, 1))
        return replace(acl, name=self.topic(acl.name))

    def allow(self, *, without: Acl | None = None) -> None:
        """Allows its user what the page lists, without one of them."""
        assert without is None or without in ACLS
        self.kafka.allow(self.named(acl) for acl in ACLS if acl != without)

    def config(self, **given: Any) -> StreamsConfig:
        settings = self.kafka.settings(USER)
        return StreamsConfig(
            application_id=self.application_id,
            bootstrap_servers=settings.bootstrap_servers,
            kafka=settings.given,
            state_dir=str(self._directory),
            **given,
        )

    def application(self, **options: Any) -> Streams:
        return Streams(self.topology(), self.config(), **options)

    def place(self, *orders: tuple[str, str]) -> None:
        """Writes orders, by their number the customer."""
        for number, customer in orders:
            self._producer.produce(self.topic("placed"), customer, number)
        assert self._producer.flush(PATIENCE) == 0

    def introduce(self, **customers: str) -> None:
        """Writes customers with their names."""
        for customer, name in customers.items():
            self._producer.produce(self.topic("customers"), name, customer)
        assert self._producer.flush(PATIENCE) == 0

    def invoices(self) -> dict[str, str]:
        """By order what was last written for it."""
        records = read_all(self._settings, self.topic("invoices"))
        return {(key or b"").decode(): (value or b"").decode() for key, value, _, _ in records}

    def topology(self) -> Topology:
        """Orders with the names of their customers, and counts of them: all kinds of internal topics."""
        builder = StreamsBuilder()
        strings = Consumed(key=TEXT, value=TEXT)
        placed = builder.table(self.topic("placed"), strings, Materialized("placed", key=TEXT, value=TEXT))
        customers = builder.table(self.topic("customers"), strings, Materialized("customers", key=TEXT, value=TEXT))
        invoices = placed.join(
            customers,
            lambda customer, name: f"{customer} {name}",
            Materialized("invoices", key=TEXT, value=TEXT),
            foreign_key=lambda customer: customer,
        )
        invoices.to_stream().to(self.topic("invoices"), Produced(key=TEXT, value=TEXT))
        by_customer = placed.to_stream().group_by(lambda number, customer: customer, Grouped(key=TEXT, value=TEXT))
        by_customer.count(Materialized("counts", key=TEXT, value=LONG))
        hours = TimeWindows(size=timedelta(hours=1))
        by_customer.windowed_by(hours).count(Materialized("hourly", key=TEXT, value=LONG))
        return builder.build()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedKafka]:
    with guarded_kafka(tmp_path_factory.mktemp("guarded-kafka")) as kafka:
        yield kafka


def test_the_commands_of_the_page_allow_what_its_table_lists() -> None:
    assert len(set(ACLS)) == len(ACLS) > 10
    assert sorted(acls_of_commands()) == sorted(ACLS)


# --- with all of them ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def orders(
    kafka: GuardedKafka, spark: SparkContext, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Shop, Streams, Streams]]:
    """The example as the page has it: one instance with the pipeline, and another one."""
    shop = Shop(kafka, tmp_path_factory.mktemp("orders"), "orders")
    shop.allow()
    with ExitStack() as running:
        leader = running.enter_context(shop.application(serving=ServingConfig()))
        other = running.enter_context(shop.application(serving=ServingConfig(), leads=False))
        await_that(lambda: len(leader.metadata_for_all_instances()) == 2, "the instances do not meet", PATIENCE)
        await_that(lambda: leader.is_leader, "the pipeline does not start", PATIENCE)
        yield shop, leader, other


def counts(instance: Streams) -> dict[str, int]:
    """How many orders each customer has placed, as an instance says."""
    return dict(instance.store("counts").all())


def await_counts(instance: Streams, expected: dict[str, int]) -> None:
    def has_them() -> bool:
        try:
            return counts(instance) == expected
        except Exception:
            return False  # the copies are not up to date yet

    await_that(has_them, "the counts do not come", PATIENCE)


def test_the_application_runs_and_its_instances_answer(orders: tuple[Shop, Streams, Streams]) -> None:
    shop, leader, other = orders
    shop.introduce(a="Ann", b="Bob")
    shop.place(("1", "a"), ("2", "b"), ("3", "a"))
    leader.process_all_available()
    assert shop.invoices() == {"1": "a Ann", "2": "b Bob", "3": "a Ann"}
    for instance in (leader, other):
        await_counts(instance, {"a": 2, "b": 1})
        assert instance.store("invoices").get("3") == "a Ann"
        assert [count for _, count in instance.store("hourly").fetch("a")] == [2]
    shares = [each.partitions for each in leader.metadata_for_all_instances()]
    assert all(shares)
    assert sorted(number for share in shares for number in share.get("counts", ())) == [0, 1]


def test_a_stranger_cannot_join_the_instances(orders: tuple[Shop, Streams, Streams]) -> None:
    shop, leader, other = orders
    shop.kafka.allow([Acl("topic", "orders-", "Read", is_prefix=True)], STRANGER)
    group = instances_group("orders")
    forged = {"group.id": group, "client.id": str(other.address)}
    consumer = Consumer({"log_level": 0, **shop.kafka.settings(STRANGER).consumer(**forged)})
    consumer.subscribe(["orders-counts-changelog"])
    refused = consumer.poll(PATIENCE)
    assert refused is not None
    assert refused.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    admin = AdminClient(shop.kafka.settings(ADMIN).admin())
    members = admin.describe_consumer_groups([group])[group].result().members
    assert sorted(member.client_id for member in members) == sorted([str(leader.address), str(other.address)])
    consumer.close()


def test_a_stranger_cannot_fence_the_application(orders: tuple[Shop, Streams, Streams]) -> None:
    shop, leader, _ = orders
    shop.kafka.allow([Acl("topic", "orders-", "Write", is_prefix=True)], STRANGER)
    producer = Producer({"log_level": 0, **shop.kafka.settings(STRANGER).producer(**{"transactional.id": "orders"})})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(PATIENCE)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    shop.introduce(c="Cid")
    shop.place(("4", "c"))
    leader.process_all_available()
    assert shop.invoices()["4"] == "c Cid"
    assert leader.is_leader


# --- without one of them -------------------------------------------------------------------------------------------


def made_by_name(kafka: GuardedKafka, directory: Path, acl: Acl) -> Shop:
    """The example under a name of its own, without this ACL."""
    shop = Shop(kafka, directory, f"app{ACLS.index(acl)}")
    shop.allow(without=acl)
    return shop


def failure_of(application: Streams) -> str:
    """What ends the application."""
    with pytest.raises(EnvironmentFailed) as failed, application:
        application.wait(PATIENCE)
    return str(failed.value)


@pytest.mark.parametrize("acl", NEEDED, ids=str)
def test_an_application_without_one_of_them_says_what_to_grant(
    acl: Acl, kafka: GuardedKafka, spark: SparkContext, tmp_path: Path
) -> None:
    shop = made_by_name(kafka, tmp_path, acl)
    shop.introduce(a="Ann")
    shop.place(("1", "a"))
    missing = shop.named(acl)
    is_instance = acl.name in ("orders-instances", "orders-leadership")
    message = failure_of(shop.application(serving=ServingConfig()) if is_instance else shop.application())
    # Settings are read before they are changed.
    operation = "DescribeConfigs" if acl.operation == "AlterConfigs" else acl.operation
    assert f"does not allow user {USER} {operation} on {acl.kind.replace('-', ' ')} {missing.name}" in message
    commands = [line for line in message.splitlines() if line.startswith("  kafka-acls.sh")]
    assert commands
    assert all(f"--allow-principal User:{USER} --operation {operation} --{acl.kind}" in line for line in commands)
    assert shop.invoices() == {}


@pytest.mark.parametrize("acl", [acl for acl in NEEDED if "-" not in acl.name], ids=str)
def test_an_application_that_loses_one_of_them_says_what_to_grant(
    acl: Acl, kafka: GuardedKafka, spark: SparkContext, tmp_path: Path
) -> None:
    shop = Shop(kafka, tmp_path, f"losing{ACLS.index(acl)}")
    shop.allow()
    missing = shop.named(acl)
    shop.introduce(a="Ann")
    shop.place(("1", "a"))
    with pytest.raises(EnvironmentFailed) as failed, shop.application() as application:
        application.process_all_available()
        kafka.withdraw(missing)
        shop.introduce(b="Bob")
        shop.place(("2", "b"))
        application.wait(PATIENCE)
    assert f"does not allow user {USER} {missing}. To allow it".replace("-id", " id") in str(failed.value)
    assert shop.invoices() == {"1": "a Ann"}


def test_an_application_that_may_not_delete_records_says_so_and_goes_on(
    kafka: GuardedKafka,
    spark: SparkContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("headrace.spark.purge.INTERVAL_SECONDS", 0.0)
    [acl] = [acl for acl in ACLS if acl.operation == DELETES and acl.is_prefix]
    shop = made_by_name(kafka, tmp_path, acl)
    shop.introduce(a="Ann")
    shop.place(("1", "a"))
    with caplog.at_level(logging.WARNING, "headrace.kafka.topics"), shop.application() as application:
        application.process_all_available()
        await_that(lambda: "--operation Delete" in caplog.text, "no warning", PATIENCE)
    assert f"does not allow user {USER} Delete on topic {shop.application_id}-" in caplog.text
    assert shop.invoices() == {"1": "a Ann"}


def test_at_least_once_needs_no_transactional_id(kafka: GuardedKafka, spark: SparkContext, tmp_path: Path) -> None:
    [acl] = [acl for acl in ACLS if acl.kind == "transactional-id"]
    shop = Shop(kafka, tmp_path, "at-least-once")
    shop.allow(without=acl)
    shop.introduce(a="Ann")
    shop.place(("1", "a"))
    with Streams(shop.topology(), shop.config(processing_guarantee="at_least_once")) as application:
        application.process_all_available()
    assert shop.invoices() == {"1": "a Ann"}


def test_old_records_need_settings_to_be_altered(kafka: GuardedKafka, spark: SparkContext, tmp_path: Path) -> None:
    [acl] = [acl for acl in ACLS if acl.operation == "AlterConfigs"]
    shop = Shop(kafka, tmp_path, "old")
    shop.allow(without=acl)
    kafka.allow([replace(shop.named(acl), operation="DescribeConfigs")])
    producer = Producer({"log_level": 0, **kafka.settings(ADMIN).producer(enable_idempotence=True)})
    producer.produce(shop.topic("placed"), "a", "1", timestamp=int(time.time() * 1000) - 30 * 86_400_000)
    assert producer.flush(PATIENCE) == 0
    message = failure_of(shop.application())
    assert f"does not allow user {USER} AlterConfigs on topic old-hourly-changelog" in message


def test_a_missing_output_topic_is_noticed_when_it_is_first_written_to(
    kafka: GuardedKafka, spark: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = partial(TransactionalCommitter, timeout=3.0)
    monkeypatch.setattr("headrace.spark.engine.TransactionalCommitter", impatient)
    shop = Shop(kafka, tmp_path, "nowhere")
    shop.allow()
    Topics(kafka.settings(ADMIN)).delete([shop.topic("invoices")])
    shop.introduce(a="Ann")
    shop.place(("1", "a"))
    told = "has no topic nowhere.invoices, which the topology writes to"
    with pytest.raises(UnknownTopicError, match=told), shop.application() as application:
        application.wait(PATIENCE)


def test_dead_letters_are_read_without_a_group(kafka: GuardedKafka) -> None:
    Topics(kafka.settings(ADMIN)).create([TopicSpec("letters", 1)])
    producer = Producer({"log_level": 0, **kafka.settings(ADMIN).producer(enable_idempotence=True)})
    producer.produce("letters", "bad")
    assert producer.flush(PATIENCE) == 0
    read, describe = Acl("topic", "letters", "Read"), Acl("topic", "letters", "Describe")
    kafka.allow([read, describe])
    assert [letter.value for letter in read_dead_letters(kafka.settings(USER), "letters", 10)] == [b"bad"]
    kafka.withdraw(read)
    with pytest.raises(EnvironmentFailed, match=f"does not allow user {USER} Read on topic letters"):
        read_dead_letters(kafka.settings(USER), "letters", 10)
    kafka.withdraw(describe)
    with pytest.raises(EnvironmentFailed, match=f"does not allow user {USER} Read on topic letters"):
        read_dead_letters(kafka.settings(USER), "letters", 10)


def test_a_reset_needs_to_delete_the_groups(kafka: GuardedKafka, tmp_path: Path) -> None:
    acl = next(acl for acl in ACLS if acl.operation == DELETES and acl.kind == "group" and acl.name == "orders")
    shop = made_by_name(kafka, tmp_path, acl)
    admin = Topics(kafka.settings(ADMIN))
    admin.create([TopicSpec(f"{shop.application_id}-commits", 1)])
    with pytest.raises(EnvironmentFailed, match=f"does not allow user {USER} Delete on group {shop.application_id}"):
        reset(shop.config(), lambda question: True, Terminal())
    assert f"{shop.application_id}-commits" in admin.describe()
    kafka.allow([shop.named(acl)])
    assert reset(shop.config(), lambda question: True, Terminal())
    assert f"{shop.application_id}-commits" not in admin.describe()
