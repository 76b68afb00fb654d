from __future__ import annotations

import re
from pathlib import Path

from headrace import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder
from headrace.cli.applications import files_of, internal_topics, sources_of
from headrace.kafka.topics import fixed_sinks
from headrace.presence import running

TEXT = Serdes.string()


def test_internal_topics_are_those_of_this_application_alone() -> None:
    known = dict.fromkeys(
        [
            "orders",
            "orders-commits",
            "orders-totals-changelog",
            "orders-by-store-repartition",
            "orders-raw",
            "orders-eu-commits",
            "orders-eu-totals-changelog",
            "others-totals-changelog",
        ],
        1,
    )

    assert internal_topics("orders", known) == [
        "orders-by-store-repartition",
        "orders-commits",
        "orders-totals-changelog",
    ]
    assert internal_topics("orders-eu", known) == ["orders-eu-commits", "orders-eu-totals-changelog"]


def test_topics_of_a_topology_are_without_internal_ones() -> None:
    builder = StreamsBuilder()
    named = builder.stream(["a", "b"], Consumed(key=TEXT, value=TEXT))
    matched = builder.stream(re.compile("shop-.*"), Consumed(key=TEXT, value=TEXT))
    counted = named.merge(matched).group_by(lambda k, v: v, Grouped(key=TEXT, value=TEXT))
    counted.count(Materialized("n", key=TEXT, value=Serdes.long())).to_stream().to(
        "out", Produced(key=TEXT, value=Serdes.long())
    )
    topology = builder.build()

    assert set(sources_of(topology, ["shop-2", "shop-1", "shopping", "a"])) == {"a", "b", "shop-1", "shop-2"}
    assert fixed_sinks(topology) == ("out",)


def test_files_are_those_of_this_application_alone(tmp_path: Path) -> None:
    mine = ["copies/orders", "serving/orders"]
    others = ["copies/orders-eu", "serving/orders-eu"]
    for directory in mine + others:
        (tmp_path / directory / "0a1b2c3d").mkdir(parents=True)
    with running(tmp_path, "orders"):
        pass  # leaves the lock, which others may wait for

    assert files_of(tmp_path, "orders") == [tmp_path / path for path in mine]
    assert files_of(tmp_path / "nowhere", "orders") == []
