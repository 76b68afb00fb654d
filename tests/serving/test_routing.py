"""Who answers: this instance, the owner, all of them together, or nobody; a question makes one hop at most."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
from collections import Counter
from typing import Any

import httpx
import msgspec
import pytest

from headrace.client import AsyncClient, Client, ClientError
from headrace.serving.copies import PartitionId
from headrace.serving.instance import Instance
from headrace.serving.membership import Member, View
from headrace.serving.peers import APPLICATION_HEADER, QUERY_PATH, HttpPeers
from headrace.serving.queries import Answer, Query, Row
from headrace.serving.routing import PeerError, Router
from tests.serving.conftest import MakeStage
from tests.serving.stage import Running, Stage, by_partition, pages, wait_until

KEYS = [f"key{number}" for number in range(30)]


class Spy:
    """Peers that are asked as they are; it keeps what was asked."""

    def __init__(self, running: Running) -> None:
        self._peers = running.service.peers
        self.asked: Counter[str] = Counter()
        running.service.router._peers = self

    async def ask(self, address: str, query: Query, timeout: float) -> Answer:
        self.asked[address] += 1
        return await self._peers.ask(address, query, timeout)


def feed(stage: Stage) -> None:
    stage.pipe(stage.source, [(key, "x", 1000) for key in KEYS for _ in range(1 + int(key[3:]))])


def owner(running: list[Running], partition: int) -> Running:
    return next(each for each in running if partition in each.instance.owned("n"))


def test_local_forwarded_and_gathered(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting()
    feed(stage)
    running = stage.start_all(3)
    assert sorted(len(each.instance.owned("n")) for each in running) == [1, 1, 1]
    spies = {each.address: Spy(each) for each in running}
    for partition, keys in by_partition(stage, KEYS).items():
        has_it = owner(running, partition)
        for each in running:
            for key in keys[:2]:
                assert http.get(f"{each.url}/v1/stores/n/keys/{key}").json()["value"] == 1 + int(key[3:])
            expected = Counter() if each is has_it else Counter({has_it.address: 2})
            assert spies[each.address].asked == expected
            spies[each.address].asked.clear()
    for each in running:
        assert len(pages(http, f"{each.url}/v1/stores/n/keys", limit=1000)) == len(KEYS)
        assert spies[each.address].asked == Counter(other.address for other in running if other is not each)
        metadata = each.service.metadata_for_key("n", "key5")
        assert f"{metadata.host}:{metadata.port}" == owner(running, metadata.partition).address
    listed = {each.address: http.get(f"{each.url}/v1/instances").json()["instances"] for each in running}
    for found in listed.values():
        assert {each["address"]: each["partitions"] for each in found} == {
            each.address: {"n": each.instance.owned("n")} for each in running
        }
        assert {each["state"] for each in found} == {"RUNNING"}
        assert {each["lag"] for each in found} == {0}


def test_a_wrong_view_on_both_sides_ends_in_one_hop(
    counting: MakeStage, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = counting(partitions=1)
    feed(stage)
    one, other, has_it = _by_ownership(stage.start_all(3))
    topic = stage.changelog("n")
    spies = [Spy(one), Spy(other)]
    # Each believes that the other has it, and is not told otherwise.
    for each, believed in ((one, other), (other, one)):
        view = View.of([Member(believed.address, frozenset({(topic, 0)})), Member(each.address)], None)
        monkeypatch.setattr(each.instance, "_see", lambda view: None)
        each.instance.view = view
        each.instance._previous_holders.clear()
    for each, spy, believed in ((one, spies[0], other), (other, spies[1], one)):
        response = http.get(f"{each.url}/v1/stores/n/keys/key1")
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["store"] == "n"
        assert [part["partition"] for part in response.json()["partitions"]] == [0]
        assert response.json()["partitions"][0]["reason"] == "not-here"
        assert spy.asked == Counter({believed.address: 1})
        spy.asked.clear()
    assert http.get(f"{has_it.url}/v1/stores/n/keys/key1").json()["value"] == 2


def _by_ownership(running: list[Running]) -> list[Running]:
    return sorted(running, key=lambda each: len(each.instance.owned("n")))


def test_a_peer_never_asks_on(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(partitions=1)
    feed(stage)
    one, has_it = _by_ownership(stage.start_all(2))

    def ask(running: Running, content: bytes, **headers: str) -> httpx.Response:
        signed = running.signed("POST", QUERY_PATH, content)
        return http.post(running.url + QUERY_PATH, content=content, headers={**signed, **headers})

    query = msgspec.json.encode(Query(kind="get", store="n", partitions=(0,), keys=(b"key1",)))
    spy = Spy(one)
    answer = ask(one, query).json()
    assert answer["rows"] == [] and answer["refused"]["0"]["reason"] == "not-here"
    assert not spy.asked
    assert len(ask(has_it, query).json()["rows"]) == 1
    # Nor does it answer the peers of another application, which may believe that the address is one of theirs.
    assert ask(has_it, query, **{APPLICATION_HEADER: "another"}).status_code == 421
    for wrong in (
        b"",
        b"{}",
        msgspec.json.encode(Query(kind="nothing", store="n", partitions=(0,))),
        msgspec.json.encode(Query(kind="windows", store="n", partitions=(0,), keys=(b"a",))),
        msgspec.json.encode(Query(kind="get", store="n", partitions=(0,), keys=(b"a",), as_of=3)),
        msgspec.json.encode(Query(kind="scan", store="n", partitions=(0,), limit=-1)),
    ):
        assert ask(has_it, wrong).status_code == 400
    far = msgspec.json.encode(Query(kind="get", store="n", partitions=(-1, 99), keys=(b"a",)))
    assert ask(has_it, far).status_code == 200


def test_an_instance_that_is_gone_without_standby(
    counting: MakeStage, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An instance that had the partition while they were shared out would answer for some time.
    monkeypatch.setattr("headrace.serving.instance._LINGER_SECONDS", 0.0)
    stage = counting()
    feed(stage)
    running = stage.start_all(3)
    gone, left = running[0], running[1]
    (partition,) = gone.instance.owned("n")
    wait_until(lambda: not any(map(_followed_beside, running)), "copies of their own alone")
    keys = by_partition(stage, KEYS)
    gone.vanish()
    response = http.get(f"{left.url}/v1/stores/n/keys/{keys[partition][0]}")
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert [part["partition"] for part in response.json()["partitions"]] == [partition]
    assert response.json()["partitions"][0]["reason"] == "unreachable"
    page = http.get(f"{left.url}/v1/stores/n/keys", params={"limit": 1000}).json()
    assert page["complete"] is False
    assert [part["partition"] for part in page["missing"]] == [partition]
    assert {entry["key"] for entry in page["entries"]} == set(KEYS) - set(keys[partition])
    assert set(page["position"].split(",")) == {
        part for part in page["position"].split(",") if part[0] != str(partition)
    }
    count = http.get(f"{left.url}/v1/stores/n/count").json()
    assert count["count"] == len(KEYS) - len(keys[partition]) and count["complete"] is False
    listed = http.get(f"{left.url}/v1/instances").json()["instances"]
    assert {each["address"]: each["state"] for each in listed}[gone.address] == "UNREACHABLE"
    with Client(left.url, timeout=5) as client, pytest.raises(ClientError, match="not complete") as failed:
        list(client.store("n").all())
    assert failed.value.status == 503
    # The client goes on to an instance that answers.
    with Client([gone.url, left.url]) as client:
        key = next(key for number, found in keys.items() if number != partition for key in found)
        assert client.store("n").get(key) == 1 + int(key[3:])


def test_a_standby_answers_for_an_instance_that_is_gone(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(standbys=1)
    feed(stage)
    running = stage.start_all(3)
    gone = running[0]
    gone.vanish()
    for each in running[1:]:
        for key in KEYS:
            assert http.get(f"{each.url}/v1/stores/n/keys/{key}").json()["value"] == 1 + int(key[3:])
        assert len(pages(http, f"{each.url}/v1/stores/n/keys", limit=1000)) == len(KEYS)


def test_a_stale_answer_for_those_who_take_one(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(partitions=1)
    feed(stage)
    one, has_it = _by_ownership(stage.start_all(2))
    # The copy that the instance has is not followed any more.
    copy = has_it.instance.copy("n", 0)
    assert copy is not None
    has_it.instance._follower.close()
    assert not copy.followed
    for each in (one, has_it):
        url = f"{each.url}/v1/stores/n/keys/key4"
        assert http.get(url).status_code == 503
        stale = http.get(url, params={"allow_stale": True})
        assert stale.json()["value"] == 5
        assert stale.json()["staleness_ms"] > 0
        assert http.get(f"{each.url}/v1/stores/n/keys/none", params={"allow_stale": True}).status_code == 404


def test_a_half_restored_copy_does_not_say_that_a_key_is_absent(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(partitions=1)
    feed(stage)
    (running,) = stage.start_all(1)
    copy = running.instance.copy("n", 0)
    assert copy is not None
    running.instance._over.set()
    running.instance._changed.set()
    running.instance._watcher.join()
    copy.ready = copy.is_whole = False
    url = f"{running.url}/v1/stores/n/keys"
    assert http.get(f"{url}/key4", params={"allow_stale": True}).json()["value"] == 5
    for path in (f"{url}/none", f"{url}/key4?allow_stale=false"):
        response = http.get(path, params={"allow_stale": True} if path.endswith("none") else {})
        assert response.status_code == 503
        assert response.json()["partitions"][0]["reason"] == "restoring"
    assert http.get(url, params={"allow_stale": True}).json()["complete"] is False


def test_a_copy_that_is_removed_while_it_is_asked_does_not_say_that_a_key_is_absent(
    counting: MakeStage, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = counting(partitions=1)
    feed(stage)
    (running,) = stage.start_all(1)
    snapshot = Instance.snapshot

    def remove_and_read(instance: Instance) -> Any:
        instance._copies.forget(PartitionId("n", 0))
        return snapshot(instance)

    running.instance._over.set()
    running.instance._changed.set()
    running.instance._watcher.join()
    running.instance._follower.close()
    monkeypatch.setattr(Instance, "snapshot", remove_and_read)
    response = http.get(f"{running.url}/v1/stores/n/keys/key4", params={"allow_stale": True})
    assert response.status_code == 503
    assert response.json()["partitions"][0]["reason"] == "not-here"


def test_a_peer_that_says_nothing_costs_the_timeout_at_most(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(partitions=1)
    feed(stage)
    (running,) = stage.start_all(1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        running.instance._over.set()
        running.instance._changed.set()
        running.instance._watcher.join()
        running.instance.view = View.of([Member(address, frozenset({(stage.changelog("n"), 0)}))], None)
        response = http.get(f"{running.url}/v1/stores/n/keys/key1", params={"timeout_ms": 300})
        assert response.status_code == 503
        assert response.elapsed.total_seconds() < 20
        assert address in response.json()["detail"]


class Lost(httpx.AsyncBaseTransport):
    """Connections that are lost in the moment in which they are made, as to an instance that is killed just then."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")


def test_a_connection_that_is_lost_at_once_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask_both() -> None:
        async with httpx.AsyncClient(transport=Lost()) as lost:
            peers = HttpPeers("application", b"secret")
            monkeypatch.setattr(peers, "_client", lambda: lost)
            with pytest.raises(PeerError, match="not connected"):
                await peers.ask("127.0.0.1:1", Query(kind="get", store="n", partitions=(0,)), 5)
            async with AsyncClient("127.0.0.1:1", timeout=0.3) as client:
                monkeypatch.setattr(client, "_http", lost)
                with pytest.raises(ClientError, match="did not answer"):
                    await client.store("n").get(1)

    asyncio.run(ask_both())


class Wrong:
    """Peers that answer whatever the test says."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def ask(self, address: str, query: Query, timeout: float) -> Answer:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_what_peers_say_is_put_together(counting: MakeStage) -> None:
    stage = counting(partitions=2)
    feed(stage)
    (running,) = stage.start_all(1)
    topic = stage.changelog("n")
    instance = running.instance
    instance._over.set()
    instance._changed.set()
    instance._watcher.join()
    here = Member(running.address, frozenset({(topic, 0)}))
    instance.view = View.of([here, Member("elsewhere:1", frozenset({(topic, 1)}))], None)
    query = Query(kind="scan", store="n", partitions=(0, 1), limit=1000)
    own = [key for key in KEYS if key in by_partition(stage, KEYS)[0]]
    rows = [Row(b"key", b"key", b"\0" * 8, 1)]
    peers = Wrong(Answer(rows=rows, positions={1: 7}, staleness_ms=None, cut=b"key"))
    answer = running.run(Router(instance, peers).ask(query, 5))
    assert [row.key for row in answer.rows] == [b"key"] and answer.cut == b"key"
    assert answer.positions[1] == 7 and answer.staleness_ms is None and not answer.refused
    answer = running.run(Router(instance, Wrong(PeerError("gone"))).ask(query, 5))
    assert {row.key.decode() for row in answer.rows} == set(own)
    assert re.search("elsewhere:1", answer.refused[1].detail)


def _followed_beside(running: Any) -> bool:
    """Whether an instance follows partitions that it does not own, such as those it has just given away."""
    instance = running.instance
    return any(copy.followed and not instance._is_own(copy) for copy in instance._copies)
