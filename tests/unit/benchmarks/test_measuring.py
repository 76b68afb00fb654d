"""The benchmarks measure and compare what they say they do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("confluent_kafka")

from benchmarks.contenders.application import HEADRACE, KAFKA_STREAMS, QUIX_STREAMS, Application
from benchmarks.contenders.spark_checkpoint import CheckpointOffsets
from benchmarks.course import Course
from benchmarks.growth import Growth, Point
from benchmarks.joined import payments, stores
from benchmarks.orders import orders, orders_of_all
from benchmarks.outcome import difference
from benchmarks.processes import kill_tree, usage
from benchmarks.race import WORKLOADS, Figures, Rival, _problem
from benchmarks.run import Run


class Script:
    """Offsets and a clock that follow a script: seconds, offset in the source, offset in the repartition topic."""

    def __init__(self, *steps: tuple[float, int, int], repartition_end: int = 0) -> None:
        self._steps = steps
        self._step = 0
        self._repartition_end = repartition_end

    def committed(self, topic: str) -> list[int]:
        _, source, repartition = self._steps[self._step]
        return [source if topic == "orders" else repartition]

    def ends(self, topic: str) -> list[int]:
        return [self._repartition_end]

    def clock(self) -> float:
        return self._steps[self._step][0]

    def play(self, application: Application, stopped: bool = False) -> Course:
        course = Course(1000, application, self, self.clock)
        for step in range(len(self._steps)):
            assert not course.is_over
            self._step = step
            course.sample()
        assert course.is_over is not stopped
        return course


def test_the_rate_is_that_after_the_first_quarter():
    script = Script((0, 0, 0), (10, 200, 0), (12, 400, 0), (14, 700, 0), (15, 1000, 0))
    course = script.play(Application(HEADRACE, "app", "stateless", ("orders",)))
    assert course.rate() == pytest.approx(600 / 3)
    assert course.end == 15


def test_a_run_that_is_stopped_has_the_rate_of_what_is_done():
    script = Script((0, 0, 0), (10, 200, 0), (12, 400, 0), (14, 700, 0))
    course = script.play(Application(HEADRACE, "app", "stateless", ("orders",)), stopped=True)
    assert course.rate() == pytest.approx(500 / 4)
    assert course.through == 700


def test_one_commit_for_everything_gives_no_rate():
    course = Script((0, 0, 0), (10, 1000, 0)).play(Application(HEADRACE, "app", "stateless", ("orders",)))
    assert course.rate() is None


def test_kafka_streams_is_done_when_the_repartition_topic_is_read():
    script = Script(
        (0, 0, 0), (1, 500, 0), (2, 1000, 303), (3, 1000, 707), (4, 1000, 1010), (5, 1000, 1010), (6.5, 1000, 1010),
        repartition_end=1012,
    )  # fmt: skip
    course = script.play(Application(KAFKA_STREAMS, "app", "windows", ("orders",)))
    assert course.end == 4
    assert course.rate() == pytest.approx(1000 * (1 - 303 / 1010) / 2)


def test_orders_are_the_same_each_time_and_of_the_right_size():
    some = list(orders(2000, 50))
    assert some == list(orders(2000, 50))
    assert 215 <= sum(len(order.value) for order in some) / len(some) <= 245
    decoded = [json.loads(order.value) for order in some]
    assert all(each["finalAmount"] == sum(item["amount"] for item in each["orderLineItems"]) for each in decoded)
    assert [each["locationId"].encode() for each in decoded] == [order.location_id for order in some]
    assert len({order.location_id for order in some}) == 50
    assert len({order.location_id for order in orders_of_all(500)}) == 500


def test_costs_between_two_shares_go_from_commit_to_commit():
    script = Script((0, 0, 0), (10, 100, 0), (11, 300, 0), (14, 600, 0), (18, 1000, 0))
    course = script.play(Application(HEADRACE, "app", "stateless", ("orders",)))
    assert course.micros_between(0.05, 0.25) == pytest.approx(1e6 * 1 / 200)
    assert course.micros_between(0.25, 1.0) == pytest.approx(1e6 * 7 / 700)
    assert course.micros_between(0.01, 0.1) is None


def test_all_topics_that_are_joined_count():
    script = Script((0, 0, 0), (10, 300, 100), (12, 600, 200), (14, 800, 200))
    course = script.play(Application(HEADRACE, "app", "table-join", ("orders", "stores")))
    assert course.rate() == pytest.approx(600 / 4)


def test_payments_come_in_order_one_for_each_order_and_some_too_late():
    some = list(payments(2000))
    assert some == list(payments(2000))
    assert sorted(each.key for each in some) == [order.order_id for order in orders(2000, 10)]
    assert [each.timestamp for each in some] == sorted(each.timestamp for each in some)
    ordered = {order.order_id: order.timestamp for order in orders(2000, 10)}
    in_time = sum(each.timestamp - ordered[each.key] <= 5000 for each in some)
    assert all(each.timestamp >= ordered[each.key] for each in some) and 1500 < in_time < 1800


def test_stores_are_older_than_all_orders_and_have_the_orders_keys():
    some = list(stores(300))
    assert max(each.timestamp for each in some) < next(orders(1, 1)).timestamp
    assert {order.location_id for order in orders(3000, 300)} <= {each.key for each in some}


def test_the_offsets_of_sparks_checkpoint(tmp_path):
    ends = SimpleNamespace(ends=lambda topic: [7, 9])
    positions = CheckpointOffsets(tmp_path, ends)
    assert positions.committed("orders") == [0, 0]
    for name, number, text in (
        ("offsets", 0, 'v1\n{"batchWatermarkMs":0}\n{"orders":{"1":3,"0":5}}\n-\n'),
        ("offsets", 1, 'v1\n{"batchWatermarkMs":0}\n{"orders":{"1":9,"0":7}}\n{"payments":{"0":1,"1":2}}\n'),
        ("commits", 0, 'v1\n{"nextBatchWatermarkMs":0}\n'),
    ):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / str(number)).write_text(text)
    assert positions.committed("orders") == [5, 3]
    assert positions.committed("stores") == [7, 9]
    (tmp_path / "commits" / "1").touch()
    assert (positions.committed("orders"), positions.committed("payments")) == ([7, 9], [1, 2])


def test_growth_is_the_last_to_the_first():
    points = [Point(1, None, 0), Point(2, 10.0, 0), Point(3, 11.0, 0), Point(4, 12.0, 0)]
    assert Growth("keys", "ms", points).ratio == pytest.approx(1.2) and Growth("keys", "ms", points).is_flat
    assert not Growth("keys", "ms", [*points, Point(5, 13.1, 0)]).is_flat
    assert not Growth("keys", "ms", points[:2]).is_flat


def test_results_that_differ_or_are_missing_give_no_ratio():
    assert _problem({b"a": [1]}, {b"a": [1]}) is None
    assert _problem({}, {}) == "there are no results"
    run = Run(100.0, 50.0, 1.0, 1.0, 1.0, 1.0)
    runs = {HEADRACE: [run], KAFKA_STREAMS: [run]}
    assert Figures(WORKLOADS[0], 1, runs, []).ratio == 1.0
    assert Figures(WORKLOADS[0], 1, runs, ["round 1: differs"]).ratio is None
    # A rival that differs says nothing about Kafka Streams.
    assert Figures(WORKLOADS[0], 1, runs, [], {QUIX_STREAMS: Rival(run, "differs")}).ratio == 1.0


def test_a_difference_names_keys():
    one = {b"a": [1], b"b": [1, 2]}
    assert difference(one, {b"a": [1], b"b": [1, 2]}) is None
    found = difference(one, {b"a": [1], b"b": [2, 1]})
    assert found is not None and "1 of 2 keys differ" in found and "b'b': [1, 2] and [2, 1]" in found
    missing = difference(one, {b"a": [1]})
    assert missing is not None and "[1, 2] and None" in missing


def test_usage_covers_the_whole_tree():
    child = "import sys; data = bytearray(50_000_000); print('up', flush=True); sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        used = usage(process.pid)
        assert used.rss_bytes > 50_000_000
        assert used.cpu_seconds > 0
        kill_tree(process.pid)
    assert usage(process.pid).rss_bytes == 0
    assert usage(os.getpid()).rss_bytes > 0
