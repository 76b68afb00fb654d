"""How topologies are laid out on Spark."""

from __future__ import annotations

import re

from headrace import Consumed, Processor, Produced, Repartitioned, Serdes, StreamsBuilder, Topology
from headrace.kafka.partitions import plan_partitions
from headrace.spark.layout import Layout, lay_out

TEXT = Serdes.string()


def laid_out(topology: Topology, **known: int) -> Layout:
    return lay_out(topology, plan_partitions(topology, known), "app", known)


def source(builder: StreamsBuilder, topic: str | re.Pattern[str]):
    return builder.stream(topic, Consumed(key=TEXT, value=TEXT))


def test_a_repartition_is_a_shuffle_and_a_stage_of_its_own():
    builder = StreamsBuilder()
    source(builder, "in").repartition(Repartitioned(name="r", partitions=5)).to("out")
    layout = laid_out(builder.build(), **{"in": 2})
    assert layout.stages == ((0,), (1,))
    assert layout.readers == {"in": 0, "app-r-repartition": 1}
    assert layout.shuffled == {"app-r-repartition"}
    assert layout.looped == frozenset()
    assert layout.stage_tasks(1) == [f"1_{number}" for number in range(5)]


def test_a_foreign_key_join_is_cut_at_one_topic():
    builder = StreamsBuilder()
    left, right = (builder.table(topic, Consumed(key=TEXT, value=TEXT)) for topic in ("left", "right"))
    left.join(right, lambda value, other: value + other, foreign_key=lambda value: value).to_stream().to("out")
    layout = laid_out(builder.build(), left=2, right=3)
    assert len(layout.looped) == len(layout.shuffled) == 1
    assert layout.looped.isdisjoint(layout.shuffled)
    assert layout.spilling == layout.shuffled
    assert set(layout.returning) == layout.looped | layout.spilling
    assert len(layout.stages) == 2


def test_a_repartition_that_is_merged_with_a_topic_is_a_real_topic_as_well():
    """A batch may read a part of the topic only: what was repartitioned has to wait for the rest somewhere."""
    builder = StreamsBuilder()
    table = builder.table("table", Consumed(key=TEXT, value=TEXT))
    records = source(builder, "in").repartition(Repartitioned(name="r"))
    records.join(table, lambda value, other: value + other).to("out")
    layout = laid_out(builder.build(), **{"in": 2, "table": 2})
    assert layout.spilling == layout.shuffled == {"app-r-repartition"}
    assert layout.looped == frozenset()
    assert layout.sources(["in", "table", "app-r-repartition"]) == ["in", "table", "app-r-repartition"]


def test_a_pattern_does_not_mean_the_topics_of_the_application():
    builder = StreamsBuilder()
    source(builder, re.compile("app-.*")).to("out")
    layout = laid_out(builder.build(), **{"app-in": 1})
    own = ["app-commits", "app-n-changelog", "app-r-repartition"]
    assert layout.sources([*own, "app-in", "app-more"]) == ["app-in", "app-more"]


def test_patterns_are_read_beside_names():
    builder = StreamsBuilder()
    source(builder, re.compile("in-.*")).to("out")
    source(builder, "other").to("out")
    layout = laid_out(builder.build(), **{"in-a": 3, "in-b": 2, "other": 1})
    assert layout.patterns == {re.compile("in-.*"): 0}
    assert layout.readers == {"other": 1}
    assert layout.tasks == {0: 3, 1: 1}
    assert layout.tasks_of([0]) == [(0, 0), (0, 1), (0, 2)]


def test_only_processors_of_the_users_may_schedule():
    builder = StreamsBuilder()
    source(builder, "plain").map_values(str.upper).to("out")
    source(builder, "processed").process(Processor).to("out")
    builder.table("table", Consumed(key=TEXT, value=TEXT)).transform_values(Processor)
    layout = laid_out(builder.build(), plain=1, processed=1, table=1)
    assert layout.scheduling == {1, 2}


def test_the_partitions_of_topics_that_a_partitioner_writes_to_are_known():
    known = {"in": 1, "plain": 2, "out": 3, "unrelated": 4}
    builder = StreamsBuilder()
    records = source(builder, "in")
    records.to("plain")
    records.to("out", Produced(partitioner=lambda topic, key, value, count: 0))
    assert laid_out(builder.build(), **known).partitions == {"in": 1, "out": 3}
    builder = StreamsBuilder()
    chosen = Produced(partitioner=lambda topic, key, value, count: 0)
    source(builder, "in").to(lambda key, value, context: "any", chosen)
    assert laid_out(builder.build(), **known).partitions == known


def test_topics_that_are_written_and_read_return():
    builder = StreamsBuilder()
    records = source(builder, "in")
    for topic in ("again", "like-this", "everywhere", "out"):
        records.to(topic)
    source(builder, "again").to("out2")
    source(builder, re.compile("like-.*")).to("out3")
    builder.global_table("everywhere", Consumed(key=TEXT, value=TEXT))
    known = {"in": 1, "again": 2, "like-this": 3, "everywhere": 4, "out": 5}
    layout = laid_out(builder.build(), **known)
    assert layout.returning == {"again": 2, "like-this": 3, "everywhere": 4}


def test_each_source_begins_where_it_says():
    builder = StreamsBuilder()
    source(builder, "first").repartition().to("out")
    builder.stream(re.compile("new-.*"), Consumed(key=TEXT, value=TEXT, offset_reset="latest")).to("out2")
    builder.stream("late", Consumed(key=TEXT, value=TEXT, offset_reset="latest")).to("out3")
    layout = laid_out(builder.build(), **{"first": 2, "new-a": 1, "late": 1})
    known = ["first", "new-a", "new-b", "late", "other"]
    assert layout.sources(known) == ["first", "new-a", "new-b", "late"]
    assert [topic for topic in known if layout.begins_at_end(topic)] == ["new-a", "new-b", "late"]


def test_global_tables_have_no_tasks():
    builder = StreamsBuilder()
    builder.global_table("everywhere", Consumed(key=TEXT, value=TEXT))
    layout = laid_out(builder.build(), everywhere=3)
    assert layout.global_topics == {"everywhere"}
    assert layout.tasks == {}
