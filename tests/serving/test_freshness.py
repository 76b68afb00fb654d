"""Every answer says how fresh it is; a request may demand more, and waits or is refused."""

from __future__ import annotations

import threading
import time
from functools import partial
from queue import SimpleQueue
from typing import Any

import httpx

from tests.serving.conftest import MakeStage
from tests.serving.stage import Running, wait_until
from tests.serving.test_routing import KEYS, _by_ownership, feed

VALUE = (7).to_bytes(8, "big")


def test_an_answer_says_how_fresh_it_is(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(partitions=1)
    feed(stage)
    other, has_it = _by_ownership(stage.start_all(2))
    copy = has_it.instance.copy("n", 0)
    assert copy is not None
    for each in (other, has_it):
        answer = http.get(f"{each.url}/v1/stores/n/keys/key3").json()
        assert answer["position"] == f"0:{copy.end}"
        assert 0 <= answer["staleness_ms"] < 60_000
        absent = http.get(f"{each.url}/v1/stores/n/keys/none")
        assert absent.status_code == 404 and absent.json()["position"] == f"0:{copy.end}"


def test_min_position_waits(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(partitions=1)
    feed(stage)
    running = stage.start_all(2)
    for each in running:
        wanted = max(_positions(running)) + 1
        answers: SimpleQueue[httpx.Response] = SimpleQueue()
        asking = threading.Thread(target=_ask, args=(http, each, wanted, answers))
        asking.start()
        wait_until(lambda: any(one.requests for one in running), "a request that waits")
        assert answers.empty()
        stage.write("n", 0, [(b"late", VALUE, 1)])
        answer = answers.get(timeout=90).json()
        assert answer["value"] == 7
        assert int(answer["position"].removeprefix("0:")) >= wanted
        stage.write("n", 0, [(b"late", None, 1)])
        # With the marker of each transaction.
        wait_until(partial(_have_reached, running, wanted + 3), "copies that have caught up")


def _have_reached(running: list[Running], wanted: int) -> bool:
    return min(_positions(running)) >= wanted


def _positions(running: list[Running]) -> list[int]:
    copies = [each.instance.copy("n", 0) for each in running]
    return [copy.position for copy in copies if copy is not None and copy.followed]


def _ask(http: httpx.Client, running: Running, wanted: int, answers: SimpleQueue[httpx.Response]) -> None:
    parameters = {"min_position": f"0:{wanted}", "timeout_ms": 60_000}
    answers.put(http.get(f"{running.url}/v1/stores/n/keys/late", params=parameters))


def test_what_does_not_come_is_refused(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(partitions=1)
    feed(stage)
    for each in stage.start_all(2):
        parameters = {"min_position": "0:1000000", "timeout_ms": 1500}
        response = http.get(f"{each.url}/v1/stores/n/keys/key1", params=parameters)
        assert response.status_code == 503
        assert response.json()["partitions"][0]["reason"] == "behind"
        assert "1000000 was asked for" in response.json()["partitions"][0]["detail"]
        page = http.get(f"{each.url}/v1/stores/n/keys", params=parameters).json()
        assert page["complete"] is False and page["missing"][0]["reason"] == "behind"


def test_max_staleness(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(partitions=1)
    feed(stage)
    (running,) = stage.start_all(1)
    url = f"{running.url}/v1/stores/n/keys/key1"
    answer = http.get(url, params={"max_staleness_ms": 5000, "timeout_ms": 60_000}).json()
    assert answer["value"] == 2 and answer["staleness_ms"] <= 5000
    # From now on nobody looks how far the topic is.
    running.instance._over.set()
    running.instance._changed.set()
    running.instance._watcher.join()
    copy = running.instance.copy("n", 0)
    assert copy is not None
    copy.caught_up_at = (copy.caught_up_at or 0) - 3600
    response = http.get(url, params={"max_staleness_ms": 5000, "timeout_ms": 200})
    assert response.status_code == 503
    assert response.json()["partitions"][0]["reason"] == "too-stale"
    assert http.get(url).json()["staleness_ms"] >= 3_600_000


class Late:
    """A consumer that keeps what it has read for later, as a process does that is stopped for a while."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.kept: list[Any] = []
        self.given = 0
        """How much of it may be given."""

    def consume(self, count: int, timeout: float) -> list[Any]:
        self.kept += self._consumer.consume(count, timeout)
        given, self.kept, self.given = self.kept[: self.given], self.kept[self.given :], 0
        return given

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


def test_an_end_that_is_read_late_makes_nothing_fresh(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(partitions=1)
    feed(stage)
    (running,) = stage.start_all(1)
    follower = running.instance._follower
    late = follower._consumer = Late(follower._consumer)
    stage.write("n", 0, [(b"early", VALUE, 1)])
    wait_until(lambda: any(message.error() is not None for message in late.kept), "the end behind the first record")
    known = len(late.kept)
    stage.write("n", 0, [(b"key1", VALUE, 1)])
    committed = time.monotonic()
    wait_until(lambda: len(late.kept) > known, "the second record")
    late.given = known
    wait_until(lambda: http.get(f"{running.url}/v1/stores/n/keys/early").status_code == 200, "the first record")
    asked = time.monotonic()
    answer = http.get(f"{running.url}/v1/stores/n/keys/key1").json()
    assert answer["value"] == 2
    assert asked - answer["staleness_ms"] / 1000 <= committed


def test_those_who_wait_do_not_keep_others_waiting(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(partitions=1)
    feed(stage)
    (running,) = stage.start_all(1)
    url = f"{running.url}/v1/stores/n/keys"
    parameters = {"min_position": "0:1000000", "timeout_ms": 60_000}
    with httpx.Client(timeout=90, limits=httpx.Limits(max_connections=60), trust_env=False) as patient:
        waiting = [threading.Thread(target=lambda: patient.get(url, params=parameters)) for _ in range(40)]
        for each in waiting:
            each.start()
        wait_until(lambda: running.requests >= 40, "40 requests that wait")
        response = http.get(url, params={"limit": 1000})
        assert len(response.json()["entries"]) == len(KEYS)
        assert all(each.is_alive() for each in waiting)
        copy = running.instance.copy("n", 0)
        assert copy is not None
        copy.position = 1_000_000
        for each in waiting:
            each.join(90)
            assert not each.is_alive()


def test_what_is_not_committed_is_not_seen(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(partitions=1)
    feed(stage)
    (running,) = stage.start_all(1)
    copy = running.instance.copy("n", 0)
    assert copy is not None
    before = copy.position
    with stage.transaction():
        stage.produce(stage.changelog("n"), 0, b"open", VALUE, 1)
        stage.flush()
        caught_up = copy.caught_up_at or 0
        wait_until(lambda: (copy.caught_up_at or 0) > caught_up, "another look at the end of the topic")
        assert copy.position == before
        assert http.get(f"{running.url}/v1/stores/n/keys/open").status_code == 404
    answer = http.get(f"{running.url}/v1/stores/n/keys/open", params={"min_position": f"0:{before + 1}"})
    assert answer.json()["value"] == 7
