"""The clock that wakes tasks."""

from __future__ import annotations

import threading
import time

from headrace.spark.ticker import Ticker

SECONDS = 30


def now() -> int:
    return int(time.time() * 1000)


def test_it_calls_at_each_moment_it_is_given():
    called = threading.Semaphore(0)
    moments = [now() + 20, None]

    def tick() -> None:
        ticker.set(moments.pop(0))
        called.release()

    ticker = Ticker(tick)
    ticker.start()
    assert not called.acquire(blocking=False)
    ticker.set(0)
    assert called.acquire(timeout=SECONDS)
    assert called.acquire(timeout=SECONDS)
    ticker.end(SECONDS)
    assert moments == []


def test_a_nearer_moment_goes_before_a_far_one():
    called = threading.Event()

    def tick() -> None:
        ticker.set(None)
        called.set()

    ticker = Ticker(tick)
    ticker.set(now() + 3_600_000)
    ticker.start()
    ticker.set(now() + 10)
    assert called.wait(SECONDS)
    ticker.end(SECONDS)


def test_ending_waits_for_a_call_that_is_under_way_and_lets_no_other_begin():
    begun, go_on = threading.Event(), threading.Event()
    calls = []

    def tick() -> None:
        begun.set()
        go_on.wait(SECONDS)
        calls.append("done")

    ticker = Ticker(tick)
    ticker.set(0)
    ticker.start()
    assert begun.wait(SECONDS)
    threading.Timer(0.05, go_on.set).start()
    ticker.end(SECONDS)
    assert calls == ["done"]
    assert "headrace-ticker" not in {thread.name for thread in threading.enumerate()}


def test_a_call_may_end_the_clock():
    ended = threading.Event()

    def tick() -> None:
        ticker.end()
        ended.set()

    ticker = Ticker(tick)
    ticker.set(0)
    ticker.start()
    assert ended.wait(SECONDS)
    ticker.end(SECONDS)
