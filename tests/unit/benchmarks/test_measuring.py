"""The benchmarks measure and compare what they say they do."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("confluent_kafka")

from benchmarks.contenders.application import HEADRACE, KAFKA_STREAMS, Application
from benchmarks.course import Course
from benchmarks.orders import orders, orders_of_all
from benchmarks.outcome import difference
from benchmarks.processes import kill_tree, usage


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

    def play(self, application: Application) -> Course:
        course = Course(1000, application, self, self.clock)
        for step in range(len(self._steps)):
            assert not course.is_over
            self._step = step
            course.sample()
        assert course.is_over
        return course


def test_the_rate_is_that_after_the_first_quarter():
    script = Script((0, 0, 0), (10, 200, 0), (12, 400, 0), (14, 700, 0), (15, 1000, 0))
    course = script.play(Application(HEADRACE, "app", "stateless", ("orders",)))
    assert course.rate() == pytest.approx(600 / 3)
    assert course.end == 15


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
