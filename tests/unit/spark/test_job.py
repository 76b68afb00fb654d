"""Which Spark task runs which stream task."""

from __future__ import annotations

from collections import Counter

import pytest

from headrace import Consumed, Repartitioned, Serdes, StreamsBuilder
from headrace.kafka.partitions import plan_partitions
from headrace.spark.job import _balanced
from headrace.spark.layout import Layout, lay_out
from headrace.spark.parcels import DRIVER, Parcel
from headrace.spark.ranges import Range
from headrace.spark.worker import Batch, Work, addressed, stage_of

TEXT = Serdes.string()


@pytest.fixture(scope="module")
def layout() -> Layout:
    """Sub-topologies 0 and 2 read topics of 2 and 3 partitions and repartition them, 1 and 3 read what they send."""
    builder = StreamsBuilder()
    for topic, partitions in (("a", 4), ("b", 5)):
        repartitioned = Repartitioned(name=topic, partitions=partitions)
        builder.stream(topic, Consumed(key=TEXT, value=TEXT)).repartition(repartitioned).to("out")
    topology = builder.build()
    known = {"a": 2, "b": 3, "out": 1}
    return lay_out(topology, plan_partitions(topology, known), "app", known)


def batch(*widths: int) -> Batch:
    return Batch(1, 0, {}, widths, {}, 1 << 20)


def work(task: str, *sizes: int) -> Work:
    return Work(task, reads=tuple(Range("t", number, 10, 10 + size) for number, size in enumerate(sizes)))


def parcel(destination: int, partition: int) -> Parcel:
    return Parcel(destination, partition, "t", 0, 1, b"")


def test_a_task_runs_in_the_stage_of_its_sub_topology(layout: Layout) -> None:
    assert layout.stages == ((0, 2), (1, 3))
    assert [stage_of(layout, task) for task in ("0_0", "2_2", "1_3", "3_4")] == [0, 0, 1, 1]


def test_tasks_of_a_later_stage_are_spread_evenly(layout: Layout) -> None:
    places = [batch(2, 3).place_of(layout, 1, *task) for task in layout.tasks_of((1, 3))]
    assert places == [0, 1, 2, 0, 1, 2, 0, 1, 2]


def test_a_narrow_stage_has_few_places(layout: Layout) -> None:
    places = Counter(batch(2, 2).place_of(layout, 1, *task) for task in layout.tasks_of((1, 3)))
    assert places == {0: 5, 1: 4}


def test_parcels_go_to_the_spark_task_that_runs_their_task(layout: Layout) -> None:
    planned = batch(2, 3)
    sent = [parcel(1, 2), parcel(3, 0), parcel(1, 2)]
    assert list(addressed(layout, planned, 1, sent)) == [
        (planned.place_of(layout, 1, each.destination, each.partition), each) for each in sent
    ]


def test_results_are_spread_over_the_spark_tasks_they_pass_through(layout: Layout) -> None:
    results = [parcel(DRIVER, 0)] * 6
    assert [place for place, _ in addressed(layout, batch(2, 3), 1, results)] == [0, 1, 2, 0, 1, 2]


def test_after_the_last_stage_there_is_nowhere_else_to_go(layout: Layout) -> None:
    assert [place for place, _ in addressed(layout, batch(2, 3), 2, [parcel(DRIVER, 1)] * 3)] == [0, 0, 0]


def test_works_are_balanced_by_what_they_read() -> None:
    works = [work("0_0", 10), work("0_1", 90), work("0_2", 40, 40), work("0_3", 5)]
    groups = _balanced(works, 2)
    assert sorted(each.task for group in groups for each in group) == ["0_0", "0_1", "0_2", "0_3"]
    assert [{each.task for each in group} for group in groups] == [{"0_1", "0_3"}, {"0_2", "0_0"}]


def test_works_without_records_are_spread_as_well() -> None:
    groups = _balanced([work(f"0_{number}") for number in range(6)], 3)
    assert [len(group) for group in groups] == [2, 2, 2]


def test_no_spark_task_is_left_without_work() -> None:
    assert [len(group) for group in _balanced([work("0_0", 1), work("0_1", 1)], 8)] == [1, 1]
    assert _balanced([], 8) == [[]], "later stages may have work of their own"
