"""Partitions have owners: they are shared out, move when instances come and go, and are never answered wrongly for."""

from __future__ import annotations

import errno
import statistics
import threading
import time
from collections.abc import Callable
from functools import partial

import httpx
import pytest
from confluent_kafka import Consumer, ConsumerGroupState
from confluent_kafka.admin import AdminClient, NewPartitions

from headrace.clock import clock
from headrace.errors import DiskFull, EnvironmentFailed
from headrace.kafka.topics import Topics, TopicSpec
from headrace.serving.config import ServingConfig
from headrace.serving.copies import PartitionCopy
from headrace.serving.instance import Instance
from headrace.serving.membership import GroupMember, Member, Place, View, instances_group
from headrace.serving.metadata import metadata_for_all
from tests.serving.conftest import MakeStage
from tests.serving.stage import TIMEOUT, Running, Stage, answer_of, by_partition, pages, wait_until
from tests.serving.test_routing import KEYS, feed

VALUE = (7).to_bytes(8, "big")


class Asker:
    """Asks for keys all the time; an answer is right, or that there is none now."""

    def __init__(self, running: Callable[[], list[Running]]) -> None:
        self._running = running
        self._over = threading.Event()
        self.right = self.refused = self.unreachable = 0
        self.wrong: list[str] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Asker:
        self._thread.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with httpx.Client(timeout=60, trust_env=False) as client:
            while not self._over.is_set():
                for key in KEYS:
                    for running in self._running():
                        self._ask(client, running, key)

    def _ask(self, client: httpx.Client, running: Running, key: str) -> None:
        try:
            response = client.get(f"{running.url}/v1/stores/n/keys/{key}", params={"timeout_ms": 2000})
        except httpx.TransportError:
            self.unreachable += 1
            return
        if response.status_code == 200 and response.json()["value"] == 1 + int(key[3:]):
            self.right += 1
        elif response.status_code == 503:
            self.refused += 1
        else:
            self.wrong.append(f"{running.address} {key}: {response.status_code} {response.text}")


def _copy(running: Running, partition: int) -> PartitionCopy:
    copy = running.instance.copy("n", partition)
    assert copy is not None
    return copy


@pytest.mark.parametrize("standbys", [0, 1])
def test_no_answer_is_wrong_while_instances_come_and_go(counting: MakeStage, standbys: int) -> None:
    stage = counting(standbys=standbys)
    feed(stage)
    running = stage.start_all(2)
    with Asker(lambda: list(running)) as asker:
        new = stage.start()
        stage.settle([*running, new])
        running.append(new)
        assert sorted(len(each.instance.owned("n")) for each in running) == [1, 1, 1]
        before = asker.right
        wait_until(lambda: asker.right > before + 100, "answers of three instances")
        leaving = running.pop(0)
        leaving.close()
        stage.settle(running)
        before = asker.right
        wait_until(lambda: asker.right > before + 100, "answers of the two that are left")
    assert asker.wrong == []


def owners_by_kafka(stage: Stage, admin: AdminClient) -> dict[Place, str]:
    """Whose the partitions are as Kafka says, which is nothing while it shares them out."""
    group = instances_group(stage.config.application_id)
    found = admin.describe_consumer_groups([group])[group].result()
    if found.state != ConsumerGroupState.STABLE:
        return {}
    return {
        (each.topic, each.partition): member.client_id
        for member in found.members
        for each in member.assignment.topic_partitions
    }


def seconds_until_known(stage: Stage, admin: AdminClient, running: list[Running]) -> float:
    """How long after Kafka every instance knows whose the partitions are, once each has some."""
    addresses = {each.address for each in running}
    owners: dict[Place, str] = {}

    def has_shared_out() -> bool:
        owners.clear()
        owners.update(owners_by_kafka(stage, admin))
        return set(owners.values()) == addresses

    wait_until(has_shared_out, "all have a partition")
    known = time.monotonic()
    wait_until(lambda: all(each.instance.view.owners == owners for each in running), "all know of it")
    return time.monotonic() - known


def test_what_kafka_knows_is_known_everywhere_within_a_second(counting: MakeStage) -> None:
    stage = counting()
    running = stage.start_all(2)
    admin = AdminClient(stage.settings.admin())
    took: list[float] = []
    for _ in range(3):
        for joins in (True, False):
            if joins:
                running.append(stage.start())
            else:
                running.pop(0).close()
            took.append(seconds_until_known(stage, admin, running))
    assert statistics.median(took) < 1


def test_a_member_of_the_group_that_is_no_instance_is_not_taken_for_one(counting: MakeStage) -> None:
    stage = counting(partitions=2)
    (running,) = stage.start_all(1)
    group = instances_group(stage.config.application_id)
    strategy = {"partition.assignment.strategy": "cooperative-sticky"}
    stranger = Consumer(stage.settings.consumer(**{"group.id": group, "client.id": "stranger", **strategy}))
    stranger.subscribe([stage.changelog("n")])
    try:
        wait_until(lambda: stranger.poll(0.1) is None and len(stranger.assignment()) == 1, "a partition for both")
        wait_until(lambda: len(running.instance.view.owners) == 1, "the instance to know that it has but one")
        assert [each.port for each in metadata_for_all(running.instance)] == [running.server.port]
    finally:
        stranger.close()


def test_a_standby_takes_over_without_replay(counting: MakeStage) -> None:
    stage = counting(standbys=1)
    feed(stage)
    running = stage.start_all(3)
    leaving = running.pop(0)
    (partition,) = leaving.instance.owned("n")
    (address,) = running[0].instance.view.standbys((stage.changelog("n"), partition), 1)
    standby = next(each for each in running if each.address == address)
    copy = _copy(standby, partition)
    assert copy.ready and copy.followed
    assert partition in running[0].instance.standing_by(running[0].instance.view)[address]["n"]
    restored, position = copy.restored, copy.position
    leaving.close()
    stage.settle(running)
    assert _copy(standby, partition) is copy
    assert copy.ready and (copy.restored, copy.position) == (restored, position)
    assert {key: running[0].store("n").get(key) for key in KEYS} == {key: 1 + int(key[3:]) for key in KEYS}


def test_who_stands_by_does_so_while_nobody_owns_a_partition() -> None:
    members = [Member(f"host:{port}") for port in range(8001, 8006)]
    for number in range(20):
        place = ("topic", number)
        unowned = View.of(members, None).standbys(place, 2)
        for owner in members:
            others = [member for member in members if member is not owner]
            owned = View.of([*others, Member(owner.address, frozenset({place}))], None)
            assert len(owned.standbys(place, 2)) == 2
            assert set(owned.standbys(place, 2)) <= {*unowned, owner.address}
        assert View.of(members, None).standbys(place, 0) == []


def test_a_standby_that_was_replaced_still_answers(
    counting: MakeStage, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new one has to restore the partition first: until then there would be none."""
    monkeypatch.setattr("headrace.serving.instance._LINGER_SECONDS", TIMEOUT)
    stage = counting(partitions=16, standbys=1)
    feed(stage)
    first, second = stage.start_all(2)
    for each in (first, second):
        wait_until(partial(_has_all, each, stage), "copies of all partitions")
    new = stage.start()
    stage.settle([first, second, new])
    stands_by = first.instance.standing_by(first.instance.view)[new.address]["n"]
    keys = by_partition(stage, KEYS)
    owner, replaced, key = next(
        (owner, replaced, keys[partition][0])
        for owner, replaced in ((first, second), (second, first))
        for partition in stands_by
        if partition in owner.instance.owned("n") and partition in keys
    )
    assert _has_all(replaced, stage)
    new.vanish()
    owner.vanish()
    assert http.get(f"{replaced.url}/v1/stores/n/keys/{key}").json()["value"] == 1 + int(key[3:])


def test_an_instance_is_ready_when_it_knows_who_has_what(
    counting: MakeStage, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before that it could not say whom to ask for the partitions of others."""
    stage = counting()
    feed(stage)
    (first,) = stage.start_all(1)
    see, seen = Instance._see, threading.Event()

    def see_no_owners(instance: Instance, view: View) -> None:
        if instance is not first.instance:
            view = View.of([Member(member.address) for member in view.members], view.leader)
            if instance.owned("n") and all(map(instance._has, instance._owned)):
                seen.set()
        see(instance, view)

    with monkeypatch.context() as patch:
        patch.setattr(Instance, "_see", see_no_owners)
        second = stage.start()
        assert seen.wait(TIMEOUT)
        response = http.get(f"{second.url}/readyz")
        assert response.status_code == 503 and "STARTING" in response.json()["detail"]
    stage.settle([first, second])
    assert http.get(f"{second.url}/readyz").status_code == 200


def _has_all(running: Running, stage: Stage) -> bool:
    copies = [running.instance.copy("n", partition) for partition in range(stage.partitions)]
    return all(copy is not None and copy.ready for copy in copies)


def test_a_restart_resumes_from_the_local_offset(counting: MakeStage) -> None:
    stage = counting(partitions=1)
    feed(stage)
    (running,) = stage.start_all(1)
    port, position = running.server.port, _copy(running, 0).position
    assert _copy(running, 0).restored >= len(KEYS)
    running.close()
    stage.write("n", 0, [(b"new", VALUE, 1)])
    again = stage.start(ServingConfig(port=port))
    stage.settle([again])
    assert (_copy(again, 0).restored, _copy(again, 0).position) == (1, position + 2)
    assert again.store("n").get("new") == 7 and again.store("n").get("key3") == 4


def test_a_changelog_that_gets_more_partitions_is_answered_from_as_before(
    counting: MakeStage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With the new number, keys were looked for in other partitions: most were not found."""
    monkeypatch.setattr("headrace.serving.instance._TOPICS_SECONDS", 0.0)
    stage = counting()
    feed(stage)
    running = stage.start_all(2)
    admin = AdminClient(stage.settings.admin())
    changelog = stage.changelog("n")
    admin.create_partitions([NewPartitions(changelog, 7)])[changelog].result()
    wait_until(lambda: f"Topic {changelog} has 7 partitions and had 3" in caplog.text, "a warning")
    for each in running:
        assert {key: each.store("n").get(key) for key in KEYS} == {key: 1 + int(key[3:]) for key in KEYS}


@pytest.mark.parametrize("hours", [13, -1])
def test_a_copy_that_may_lack_deletions_begins_anew(
    counting: MakeStage, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """Kafka keeps deletions for a day: a copy that was not there had deleted keys for ever, and called them fresh."""
    stage = counting(partitions=1)
    feed(stage)
    [running] = stage.start_all(1)
    port = running.server.port
    running.close()
    now = time.time()
    monkeypatch.setattr("headrace.serving.copies.time.time", lambda: now + 3600 * hours)
    again = stage.start(ServingConfig(port=port))
    stage.settle([again])
    assert _copy(again, 0).restored >= len(KEYS)
    assert again.store("n").get("key3") == 4


def test_a_copy_that_is_behind_for_too_long_begins_anew(counting: MakeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that was suspended for a night: its monotonic clock stands still."""
    stage = counting(partitions=1)
    feed(stage)
    [running] = stage.start_all(1)
    before = _copy(running, 0)
    with monkeypatch.context() as patch:
        patch.setattr(PartitionCopy, "saw_end", lambda *ignored: None)
        before.complete_at -= 13 * 3_600_000
        wait_until(lambda: running.instance.copy("n", 0) not in (None, before), "a new copy")
    stage.settle([running])
    assert running.store("n").get("key3") == 4


def test_an_instance_leaves_and_its_copies_stay(counting: MakeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that comes back after it was left for long is neither lost nor half erased."""
    stage = counting(partitions=1)
    feed(stage)
    (running,) = stage.start_all(1)
    copy = _copy(running, 0)
    monkeypatch.setattr("headrace.serving.copies._KEEP_SECONDS", 0.0)
    looked = copy.caught_up_at or 0
    wait_until(lambda: (copy.caught_up_at or 0) > looked, "another look")
    running.instance._take_over(frozenset())
    running.instance._left.clear()
    wait_until(lambda: running.instance.copy("n", 0) is None, "the copy gone")
    running.instance._take_over(frozenset({(stage.changelog("n"), 0)}))
    wait_until(lambda: running.instance.is_ready, "the copy back")
    assert running.store("n").get("key3") == 4
    assert running.instance.failure is None


def test_a_topic_that_was_made_anew_is_noticed(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(partitions=1)
    feed(stage)
    (running,) = stage.start_all(1)
    port = running.server.port
    assert running.store("n").get("key3") == 4
    topics, topic = Topics(stage.settings), stage.changelog("n")
    topics.delete([topic])
    wait_until(lambda: topic not in topics.describe(), "the topic gone")
    topics.ensure([TopicSpec(topic, 1, {"cleanup.policy": "compact"})])
    stage.write("n", 0, [(b"fresh", VALUE, 1)])
    # While it runs …
    wait_until(lambda: http.get(f"{running.url}/v1/stores/n/keys/fresh").status_code == 200, "the new content")
    assert http.get(f"{running.url}/v1/stores/n/keys/key3").status_code == 404
    assert len(pages(http, f"{running.url}/v1/stores/n/keys")) == 1
    running.close()
    # … and after a restart.
    topics.delete([topic])
    wait_until(lambda: topic not in topics.describe(), "the topic gone")
    topics.ensure([TopicSpec(topic, 1, {"cleanup.policy": "compact"})])
    again = stage.start(ServingConfig(port=port))
    stage.settle([again])
    assert again.store("n").get("fresh") is None


def test_restoring_is_reported(counting: MakeStage, http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = counting(partitions=1)
    stage.write("n", 0, [(b"%d" % number, VALUE, 1) for number in range(5000)])
    monkeypatch.setattr("headrace.serving.follower._RECORDS_AT_ONCE", 1000)
    gate, taken = threading.Event(), threading.Semaphore(0)
    original = PartitionCopy.take

    def slowly(self: PartitionCopy, *arguments: object) -> None:
        original(self, *arguments)
        taken.release()
        if self.restored >= 2000:
            assert gate.wait(90)

    monkeypatch.setattr(PartitionCopy, "take", slowly)
    running = stage.start()
    for _ in range(2):
        assert taken.acquire(timeout=90)
    wait_until(lambda: _copy(running, 0).end is not None, "the end of the topic")
    ready = http.get(f"{running.url}/readyz")
    assert ready.status_code == 503 and ready.headers["retry-after"] == "1"
    (restoring,) = ready.json()["restoring"]
    assert (restoring["store"], restoring["partition"]) == ("n", 0)
    assert 0 < restoring["records_left"] <= 5001 and restoring["eta_seconds"] > 0
    (listed,) = http.get(f"{running.url}/v1/instances").json()["instances"]
    assert listed["state"] == "RESTORING" and listed["lag"] == restoring["records_left"]
    refused = http.get(f"{running.url}/v1/stores/n/keys/4999")
    assert refused.status_code == 503 and refused.json()["partitions"][0]["reason"] == "restoring"
    gate.set()
    stage.settle([running])
    assert http.get(f"{running.url}/readyz").status_code == 200
    assert http.get(f"{running.url}/v1/stores/n/keys/4999").json()["value"] == 7


def test_an_instance_that_cannot_go_on_gives_its_partitions_away(
    counting: MakeStage, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = counting(partitions=2, standbys=1)
    feed(stage)
    running = stage.start_all(2)
    failing, other = running

    def fail(*ignored: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(failing.instance._copies, "take", fail)
    stage.pipe(stage.source, [(key, "x", 2000) for key in KEYS])
    wait_until(lambda: failing.instance.failure is not None, "the failure")
    assert http.get(f"{failing.url}/healthz").status_code == 503
    assert http.get(f"{failing.url}/readyz").status_code == 503
    assert failing.instance.state == "FAILED"
    wait_until(lambda: other.instance.owned("n") == [0, 1], "the other has all")
    for each in running:
        url = f"{each.url}/v1/stores/n/keys/key3"
        wait_until(partial(_answers, http, url), "answers of the other")
        assert http.get(url).json()["value"] == 5


def _answers(http: httpx.Client, url: str) -> bool:
    return http.get(url).status_code == 200


def test_two_instances_cannot_have_one_address(counting: MakeStage) -> None:
    stage = counting(partitions=1)
    feed(stage)
    running = stage.start_all(1)
    with pytest.raises(EnvironmentFailed, match="address of its own"):
        stage.start(ServingConfig(advertise=running[0].address))


def test_pages_while_partitions_move_and_data_changes(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(standbys=1)
    feed(stage)
    running = stage.start_all(2)
    over = threading.Event()

    def change() -> None:
        number = 0
        while not over.is_set():
            number += 1
            stage.pipe(stage.source, [(f"moving{number % 50}", "x", 3000), (f"a{number % 9}", "x", 3000)])

    changing = threading.Thread(target=change)
    changing.start()
    try:
        joining = stage.start()
        for turn in range(6):
            found = _all_keys(http, running[turn % 2])
            assert len(found) == len(set(found))
            assert set(KEYS) <= set(found)
            assert found == sorted(found)
        over.set()
        changing.join()
        stage.settle([*running, joining])
    finally:
        over.set()
        changing.join()


def _all_keys(http: httpx.Client, running: Running) -> list[str]:
    """Every key, page by page; a page that is not complete is asked for again."""
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = http.get(f"{running.url}/v1/stores/n/keys", params={"limit": 4, **cursor}).json()
        if not page["complete"]:
            continue
        found += [entry["key"] for entry in page["entries"]]
        if page["next"] is None:
            return found
        cursor = {"cursor": page["next"]}


def test_closing_waits_for_who_reads(counting: MakeStage) -> None:
    stage = counting(partitions=1)
    feed(stage)
    (running,) = stage.start_all(1)
    copy = _copy(running, 0)
    with running.instance.snapshot() as snapshot:
        store = copy.store_in(snapshot)
        closing = threading.Thread(target=running.close)
        closing.start()
        assert store.get(b"key3").value == (4).to_bytes(8, "big")
        assert closing.is_alive()
    closing.join(90)
    assert not closing.is_alive()
    answer = answer_of(running)
    assert answer.refused[0].reason == "not-here"


def test_a_copy_that_nobody_follows_is_never_ready(counting: MakeStage) -> None:
    """Two threads tell a copy that it is up to date, and one of them may have asked before it was left."""
    stage = counting(partitions=1)
    feed(stage)
    (running,) = stage.start_all(1)
    copy = _copy(running, 0)
    end, asked_at = copy.position, clock()
    copy.leave()
    copy.saw_end(end, asked_at)
    assert not copy.ready
    copy.begin()
    copy.saw_end(end, asked_at)
    assert not copy.ready, "what was asked before does not tell what was missed meanwhile"
    copy.saw_end(end, clock())
    assert copy.ready


def test_the_age_of_an_answer_counts_while_the_machine_is_suspended(
    counting: MakeStage, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The monotonic clock stands still then: what was an hour old counted as fresh."""
    stage = counting(partitions=1)
    feed(stage)
    (running,) = stage.start_all(1)
    monkeypatch.setattr(running.instance, "_see_ends", lambda: None)
    awake = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda kind: awake(kind) + 3600)
    answer = answer_of(running)
    assert answer.staleness_ms is not None and answer.staleness_ms >= 3_590_000


@pytest.mark.parametrize("group", ["instances", "leadership"])
def test_an_instance_that_cannot_stay_in_its_groups_fails(
    group: str, counting: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread ended, and nobody noticed."""
    stage = counting(partitions=1)
    feed(stage)
    assigned = GroupMember._assigned

    def fail(member: GroupMember, *arguments: object) -> None:
        if member.group.endswith(group):
            raise RuntimeError("a bug")
        assigned(member, *arguments)

    monkeypatch.setattr(GroupMember, "_assigned", fail)
    failures: list[Exception] = []
    running = stage.start(leads=True, on_failure=failures.append)
    wait_until(lambda: failures, "the failure")
    assert running.instance.state == "FAILED"
    assert "can no longer be a member of its groups in Kafka: a bug" in str(failures[0])


def test_a_full_disk_is_told_of(counting: MakeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = counting(partitions=1)
    feed(stage)
    failures: list[Exception] = []
    running = stage.start(on_failure=failures.append)
    stage.settle([running])

    def fail(*ignored: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(running.instance._copies, "take", fail)
    stage.pipe(stage.source, [(key, "x", 2000) for key in KEYS])
    wait_until(lambda: failures, "the failure")
    assert isinstance(failures[0], DiskFull)
    assert "The disk is full: the state directory" in str(failures[0])
