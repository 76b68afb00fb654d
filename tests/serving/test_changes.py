"""The changes of a store as server-sent events: from a position on, from all partitions, until either side ends."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice

import httpx
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.client import AsyncClient, Client, ClientError
from headrace.kafka.topics import Topics
from headrace.serving import tails
from headrace.serving.changes import ChangeReader
from headrace.serving.config import ServingConfig
from tests.serving.conftest import Fixed, MakeStage
from tests.serving.stage import Running, Stage, wait_until
from tests.serving.test_routing import KEYS

ODD = ["line\u2028separator", "next\x85line", "a\rb\nc", "日本"]


def feed(stage: Stage) -> None:
    """Each key once: Kafka may remove earlier values of a key at any time."""
    stage.pipe(stage.source, [(key, "x", 1000) for key in KEYS])


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[ChangeReader]:
    """The readers of subscribers, as they are made."""
    made: list[ChangeReader] = []
    original = ChangeReader.__init__

    def init(self: ChangeReader, *arguments: object) -> None:
        original(self, *arguments)
        made.append(self)

    monkeypatch.setattr(ChangeReader, "__init__", init)
    return made


def are_closed(running: Running, readers: list[ChangeReader]) -> None:
    wait_until(lambda: running.subscribers.count == 0, "no subscribers")
    wait_until(lambda: all(reader.is_closed for reader in readers), "readers closed")


def test_changes_from_the_beginning_and_on(counting: MakeStage, readers: list[ChangeReader]) -> None:
    stage = counting()
    feed(stage)
    (running,) = stage.start_all(1)
    total = len(KEYS)
    with Client(running.url) as client:
        changes = client.store("n").changes("beginning")
        found = list(islice(changes, total))
        latest = {change.key: change.value for change in found}
        assert latest == dict.fromkeys(KEYS, 1)
        assert {change.partition for change in found} == {0, 1, 2}
        for partition in range(3):
            offsets = [change.offset for change in found if change.partition == partition]
            assert offsets == sorted(offsets)
        stage.pipe(stage.source, [(key, "x", 5000) for key in ODD])
        assert {change.key for change in islice(changes, len(ODD))} == set(ODD)
        changes.close()
        are_closed(running, readers)
        # From any id on: what came after it, once each.
        for at in (0, 7, total - 1):
            rest = client.store("n").changes(found[at].position)
            again = list(islice(rest, total + len(ODD) - at - 1))
            rest.close()
            expected = {(change.partition, change.offset) for change in found[at + 1 :]}
            assert {(change.partition, change.offset) for change in again if change.key in KEYS} == expected
    are_closed(running, readers)


def test_changes_from_now_on(counting: MakeStage, readers: list[ChangeReader]) -> None:
    stage = counting()
    feed(stage)
    running = stage.start_all(2)
    with stage.transaction():
        # Begun before, committed after: it is still to come.
        stage.produce(stage.changelog("n"), 0, b"open", (1).to_bytes(8, "big"), 77)
        stage.flush()

        async def first() -> list[object]:
            async with AsyncClient([each.address for each in running]) as client:
                changes = client.store("n").changes()
                asked = asyncio.ensure_future(anext(changes))
                while not readers:
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(stage._producer.commit_transaction, 60)
                change = await asked
                await changes.aclose()
                return [change.key, change.value, change.timestamp, change.partition]

        assert asyncio.run(first()) == ["open", 1, 77, 0]
        stage._producer.begin_transaction()
    for each in running:
        are_closed(each, readers)


def test_windows_sessions_and_tombstones(app: Fixed) -> None:
    with Client(app.any.url) as client:
        window = next(iter(client.store("minutes").changes("beginning")))
        assert window.window is not None and window.window[1] - window.window[0] == 60_000
        session = next(iter(client.store("visits").changes("beginning")))
        assert session.window is not None
        prices = client.store("prices").changes("beginning")
        assert next(change for change in prices if change.value is None).key == "jam"
        place = next(iter(client.store("places").changes("beginning")))
        assert place.value.keys() == {"n"}


def test_json_with_line_ends_is_one_event(app: Fixed) -> None:
    pretty = json.dumps({"a": [1, 2]}, indent=2).replace("\n", "\r\n").encode()
    app.stage.write("odd", 1, [(b'"pretty"', pretty, 5)])
    with Client(app.any.url) as client:
        changes = client.store("odd").changes("beginning")
        change = next(change for change in changes if change.key == "pretty")
        assert change.value == {"a": [1, 2]}


def test_the_last_event_id_of_browsers(app: Fixed) -> None:
    url = f"{app.any.url}/v1/stores/clicks/changes"
    headers = {"Last-Event-ID": "0:1,1:0,2:0"}
    with httpx.stream("GET", url, headers=headers, timeout=60) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.iter_lines()
        assert next(lines) == "retry: 1000"
        assert next(lines) == "id: 0:1,1:0,2:0"
        event = list(islice(lines, 4))
        assert [line.partition(":")[0] for line in event] == ["", "id", "event", "data"]


@pytest.mark.parametrize("position", ["x", "9:0", "0:99999999", "0:1,1", "-1:0"])
def test_positions_that_are_none(app: Fixed, http: httpx.Client, position: str) -> None:
    response = http.get(f"{app.any.url}/v1/stores/clicks/changes", params={"position": position})
    assert response.status_code == 400, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert app.any.subscribers.count == 0


def test_subscribers_are_limited(counting: MakeStage, http: httpx.Client, readers: list[ChangeReader]) -> None:
    stage = counting(partitions=1)
    feed(stage)
    running = stage.start(ServingConfig(max_subscribers=2))
    stage.settle([running])
    url = f"{running.url}/v1/stores/n/changes"
    with httpx.stream("GET", url, timeout=60), httpx.stream("GET", url, timeout=60):
        response = http.get(url)
        assert response.status_code == 503 and response.headers["retry-after"] == "1"
        assert running.subscribers.count == 2
    are_closed(running, readers)


def test_a_client_goes_on_at_another_instance(counting: MakeStage) -> None:
    stage = counting()
    feed(stage)
    ending, other = stage.start_all(2)
    total = len(KEYS)
    with Client([ending.url, other.url], timeout=60) as client:
        changes = client.store("n").changes("beginning")
        seen = list(islice(changes, total))
        ending.close()
        stage.pipe(stage.source, [("after", "x", 5000)])
        assert next(changes).key == "after"
        places = {(change.partition, change.offset) for change in seen}
        assert len(places) == total
    with Client(ending.url, timeout=0.5) as client, pytest.raises(ClientError, match="did not answer"):
        next(client.store("n").changes())


def test_the_end_of_an_instance_ends_its_subscriptions(counting: MakeStage, readers: list[ChangeReader]) -> None:
    stage = counting(partitions=1)
    feed(stage)
    (running,) = stage.start_all(1)
    with httpx.stream("GET", f"{running.url}/v1/stores/n/changes", timeout=60) as response:
        lines = response.iter_lines()
        assert next(lines) == "retry: 1000"
        running.close()
        assert list(lines)[:2] != []
    are_closed(running, readers)


def test_changes_that_are_gone_are_told_of(counting: MakeStage, http: httpx.Client) -> None:
    """Who resumed after them got what was left, as if it were all."""
    stage = counting(partitions=1)
    feed(stage)
    (running,) = stage.start_all(1)
    topics, changelog = Topics(stage.settings), stage.changelog("n")
    topics.configure(changelog, {"cleanup.policy": "compact,delete"})
    admin, first = AdminClient(stage.settings.admin()), TopicPartition(changelog, 0, 10)
    admin.delete_records([first])[first].result()
    response = http.get(f"{running.url}/v1/stores/n/changes", params={"position": "0:5"})
    assert response.status_code == 410
    assert "deleted changes of partition 0 of store n before offset 10" in response.json()["detail"]
    with Client(running.url) as client:
        with pytest.raises(ClientError, match="before offset 10"):
            next(client.store("n").changes("0:5"))
        left = client.store("n").changes("beginning")
        assert next(left).offset == 10
        left.close()
    wait_until(lambda: running.subscribers.count == 0, "no subscribers")


def numbered(stage: Stage, first: int, count: int, text: str = "") -> None:
    """Writes changes of new keys to all partitions, each partition in a transaction of its own."""
    for partition in range(stage.partitions):
        keys = (f"{partition}-{number:06}{text}" for number in range(first, first + count))
        stage.write("n", partition, [(key.encode(), (1).to_bytes(8, "big"), 1) for key in keys])


def test_all_who_follow_a_store_share_one_reader(counting: MakeStage, readers: list[ChangeReader]) -> None:
    """Each had a client of its own, with megabytes read ahead."""
    stage = counting()
    (running,) = stage.start_all(1)
    url = f"{running.url}/v1/stores/n/changes"
    with ExitStack() as stack:
        followers = [stack.enter_context(httpx.stream("GET", url, timeout=60)) for _ in range(20)]
        lines = [follower.iter_lines() for follower in followers]
        for each in lines:
            assert next(each) == "retry: 1000"
        numbered(stage, 0, 5)
        seen = [
            sorted(json.loads(data.removeprefix("data: "))["key"] for data in islice(filter(is_data, each), 15))
            for each in lines
        ]
        assert seen == [sorted(f"{partition}-{number:06}" for partition in range(3) for number in range(5))] * 20
        assert len(readers) == 1
    are_closed(running, readers)


def is_data(line: str) -> bool:
    return line.startswith("data: ")


def test_who_falls_behind_is_told_and_goes_on(counting: MakeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "MOST_WAITING_BYTES", 20_000)
    stage = counting()
    (running,) = stage.start_all(1)
    url, total = f"{running.url}/v1/stores/n/changes", 4000
    with httpx.stream("GET", url, timeout=60) as response:
        lines = response.iter_lines()
        first = dict(islice(each_field(lines), 2))
        # More than fits between the two: sockets, buffers and the queue.
        numbered(stage, 0, total, "x" * 2000)
        wait_until(lambda: all(end_of(stage, partition) > total for partition in range(3)), "all is written")
        fields = [first["id"], *(content for name, content in each_field(lines) if name in ("id", "event"))]
    assert fields[-1] == "behind"
    last = offsets_in(next(content for content in reversed(fields) if content[0].isdigit()))
    assert min(last) < total
    with Client(running.url) as client:
        rest = client.store("n").changes(",".join(f"{partition}:{offset}" for partition, offset in enumerate(last)))
        # After the changes of a partition comes the mark of their transaction.
        found = list(islice(rest, sum(max(0, total - offset) for offset in last)))
        rest.close()
    for partition, offset in enumerate(last):
        offsets = [change.offset for change in found if change.partition == partition]
        assert offsets == list(range(offset, total))


def offsets_in(position: str) -> list[int]:
    return [int(each.split(":")[1]) for each in position.split(",")]


def each_field(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, _, content = line.partition(": ")
        if content:
            yield name, content


def end_of(stage: Stage, partition: int) -> int:
    place = (stage.changelog("n"), partition)
    return Topics(stage.settings).ends([place])[place]


def test_each_change_once_whenever_one_comes_and_goes(counting: MakeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers that come back with a position meet the tail of the store somewhere, or fall behind it again."""
    monkeypatch.setattr(tails, "MOST_WAITING_BYTES", 2_000)
    stage = counting()
    (running,) = stage.start_all(1)
    rounds, size = 40, 10
    total = 3 * rounds * size

    def follow(seed: int) -> list[tuple[int, int]]:
        chance, position, found = random.Random(seed), "0:0,1:0,2:0", list[tuple[int, int]]()
        with Client(running.url, timeout=60) as client:
            while len(found) < total:
                changes = client.store("n").changes(position)
                for change in islice(changes, min(chance.randrange(1, 80), total - len(found))):
                    position = change.position
                    found.append((change.partition, change.offset))
                changes.close()
        return found

    with ThreadPoolExecutor(6) as threads:
        following = [threads.submit(follow, seed) for seed in range(6)]
        for number in range(rounds):
            numbered(stage, number * size, size)
        for each in following:
            found = each.result(120)
            for partition in range(3):
                offsets = [offset for found_in, offset in found if found_in == partition]
                assert offsets == sorted(set(offsets)) and len(offsets) == rounds * size
    wait_until(lambda: running.subscribers.count == 0, "no subscribers")
