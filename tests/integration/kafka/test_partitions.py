"""How many partitions and tasks a topology gets: Kafka Streams' rules, without a broker."""

from __future__ import annotations

import re

import pytest

import headrace as hr
from headrace.errors import TopologyError, UnknownTopicError
from headrace.kafka.partitions import plan_partitions, source_topics
from headrace.kafka.topics import changelog_configs
from headrace.topology.stores import StoreKind, StoreSpec

DAY_MS = 86_400_000


STRINGS = hr.Serdes.string()
CONSUMED = hr.Consumed(STRINGS, STRINGS)


def rekeyed(topology: hr.StreamsBuilder, topic: str, name: str, partitions: int | None = None) -> hr.KStream:
    options = hr.Repartitioned(STRINGS, STRINGS, name=name, partitions=partitions)
    return topology.stream(topic, CONSUMED).select_key(lambda k, v: v).repartition(options)


def test_a_repartition_topic_is_as_large_as_the_largest_topic_written_into_it() -> None:
    b = hr.StreamsBuilder()
    merged = b.stream("small", CONSUMED).merge(b.stream("large", CONSUMED))
    merged.group_by(lambda k, v: v, hr.Grouped(STRINGS, STRINGS, name="by")).count(materialized="n")
    plan = plan_partitions(b.build(), {"small": 2, "large": 5, "unrelated": 9})

    assert plan.sources == {"small": 2, "large": 5, "by-repartition": 5}
    assert plan.repartition == {"by-repartition": 5}
    assert plan.tasks == {0: 5, 1: 5}
    assert plan.changelogs == {"n": 5}


def test_a_number_the_user_gave_is_kept_and_handed_down() -> None:
    b = hr.StreamsBuilder()
    first = rekeyed(b, "in", "first", partitions=7)
    first.group_by(lambda k, v: v, hr.Grouped(STRINGS, STRINGS, name="second")).count(materialized="n")
    plan = plan_partitions(b.build(), {"in": 3})
    assert plan.repartition == {"first-repartition": 7, "second-repartition": 7}
    assert plan.tasks == {0: 3, 1: 7, 2: 7}


def test_a_repartitioned_side_of_a_join_follows_the_other_side() -> None:
    b = hr.StreamsBuilder()
    rekeyed(b, "orders", "orders-by-store").join(b.table("stores", CONSUMED), lambda o, s: o + s)
    plan = plan_partitions(b.build(), {"orders": 8, "stores": 3})
    assert plan.repartition == {"orders-by-store-repartition": 3}
    assert sorted(plan.tasks.values()) == [3, 8]


def test_two_repartitioned_sides_get_the_larger_number_or_the_one_that_was_given() -> None:
    def joined(partitions: int | None) -> hr.Topology:
        b = hr.StreamsBuilder()
        table = rekeyed(b, "left", "l").to_table()
        other = rekeyed(b, "right", "r", partitions).to_table()
        table.join(other, lambda one, two: one + two)
        return b.build()

    assert plan_partitions(joined(None), {"left": 2, "right": 6}).repartition == {
        "l-repartition": 6,
        "r-repartition": 6,
    }
    assert plan_partitions(joined(4), {"left": 2, "right": 6}).repartition == {"l-repartition": 4, "r-repartition": 4}


def test_sources_that_are_joined_must_be_equal() -> None:
    b = hr.StreamsBuilder()
    b.stream("orders", CONSUMED).join(b.table("stores", CONSUMED), lambda o, s: o + s)
    with pytest.raises(TopologyError, match="orders has 4, stores has 3"):
        plan_partitions(b.build(), {"orders": 4, "stores": 3})


def test_a_given_number_that_differs_from_the_joined_topic_is_refused() -> None:
    b = hr.StreamsBuilder()
    rekeyed(b, "orders", "by-store", partitions=5).join(b.table("stores", CONSUMED), lambda o, s: o + s)
    with pytest.raises(TopologyError, match="by-store-repartition has 5, stores has 3"):
        plan_partitions(b.build(), {"orders": 4, "stores": 3})


def test_missing_topics_are_all_named_and_global_tables_have_no_tasks() -> None:
    b = hr.StreamsBuilder()
    stores = b.global_table("stores", CONSUMED)
    b.stream("orders", CONSUMED).join(stores, lambda o, s: o + s, key=lambda k, v: v).to("out")
    topology = b.build()
    assert sorted(source_topics(topology)) == ["orders", "stores"]
    with pytest.raises(UnknownTopicError, match="orders"):
        plan_partitions(topology, {})
    plan = plan_partitions(topology, {"orders": 4, "stores": 9})
    assert list(plan.tasks.values()) == [4]
    assert plan.changelogs == {}


def test_a_pattern_reads_what_it_matches() -> None:
    topology = hr.Topology().add_source("in", re.compile(r".*s")).add_sink("out", "result", "in").freeze()
    plan = plan_partitions(topology, {"orders": 3, "returns": 5, "other": 8, "__consumer_offsets": 50})
    assert plan.sources == {"orders": 3, "returns": 5}
    assert plan.tasks == {0: 5}


def test_a_repartition_after_a_pattern_that_matches_nothing_is_refused() -> None:
    topology = hr.Topology().add_source("in", re.compile("orders-.*")).add_sink("out", "r", "in")
    topology.add_internal_topic("r")
    topology.add_source("again", "r").add_sink("end", "result", "again").freeze()
    with pytest.raises(TopologyError, match="a pattern must match at least one"):
        plan_partitions(topology, {})


@pytest.mark.parametrize(
    ("store", "configs"),
    [
        (StoreSpec("s", StoreKind.TIMESTAMPED_KEY_VALUE), {"cleanup.policy": "compact"}),
        (StoreSpec("s", StoreKind.SUPPRESS_BUFFER), {"cleanup.policy": "compact"}),
        (StoreSpec("s", StoreKind.OUTER_JOIN, retention_ms=5), {"cleanup.policy": "compact"}),
        (
            StoreSpec("s", StoreKind.SESSION, retention_ms=5),
            {"cleanup.policy": "compact,delete", "retention.ms": str(DAY_MS + 5)},
        ),
        (
            StoreSpec("s", StoreKind.WINDOW, retention_ms=5, retain_duplicates=True),
            {"cleanup.policy": "delete", "retention.ms": str(DAY_MS + 5)},
        ),
        (
            StoreSpec("s", StoreKind.TIMESTAMPED_WINDOW, retention_ms=2**63 - 1),
            {"cleanup.policy": "compact,delete", "retention.ms": str(2**63 - 1)},
        ),
        (
            StoreSpec("s", StoreKind.VERSIONED, retention_ms=5),
            {"cleanup.policy": "compact", "min.compaction.lag.ms": str(DAY_MS + 5)},
        ),
    ],
)
def test_changelogs_are_cleaned_up_as_their_store_is(store: StoreSpec, configs: dict[str, str]) -> None:
    assert changelog_configs(store) == {"message.timestamp.type": "CreateTime", **configs}
