"""Three instances of the bank in processes of their own: they share, they die, they come back, nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.kafka.embedded import EmbeddedKafka
from tests.instances.bank import ACCOUNTS, Bank, followed_in
from tests.instances.processes import Process, slowness, wait_until

pytestmark = pytest.mark.acceptance

_ANSWERED_AGAIN_SECONDS = 10.0
_PIPELINE_AGAIN_SECONDS = 10.0


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    directory = tmp_path_factory.mktemp("instances")
    with EmbeddedKafka(directory / "state", port=0) as kafka:
        bank = Bank(kafka, directory)
        try:
            yield bank
        finally:
            bank.clean_up()


@pytest.fixture
def bank(everything: Bank) -> Bank:
    """The bank with all instances at work and money in every account."""
    everything.settle()
    everything.pay_some(len(ACCOUNTS))
    everything.await_balances()
    return everything


def test_every_key_is_answered_by_every_instance(bank: Bank) -> None:
    bank.pay_some(500)
    bank.await_balances()

    views = bank.instances.views()
    assert all(view == views[0] for view in views)
    assert len({each["address"] for each in views[0]["instances"]}) == 3
    assert [sorted(each["partitions"]) for each in views[0]["instances"]] == [["balances"]] * 3
    assert [each["leader"] for each in views[0]["instances"]].count(True) == 1
    followed = sorted(partition for each in views[0]["instances"] for partition in each["standby"].get("balances", ()))
    assert followed == [0, 1, 2]


def test_a_killed_instance_is_stood_in_for_and_comes_back(bank: Bank) -> None:
    victim = bank.server
    survivors = bank.others(victim)
    before = followed_in(victim.logged())

    victim.kill()
    killed = answered = time.monotonic()
    is_over = False
    while not is_over:
        is_over = survivors.agree(2)
        for each in survivors.balances(ACCOUNTS):
            wrong = {key: value for key, value in each.items() if value != bank.expected[key]}
            assert set(wrong.values()) <= {"status 503"}
            if wrong:
                answered = time.monotonic()
                is_over = False
    silent = answered - killed
    print(f"\nA killed instance: all keys were answered again after {silent:.1f} s (slowness {slowness():.1f})")
    assert silent < _ANSWERED_AGAIN_SECONDS * slowness()

    known = len(victim.logged())
    bank.settle()
    bank.await_balances()
    after = followed_in(victim.logged()[known:])
    assert after
    assert all(offset > 0 for partition, offset in after.items() if partition in before)


def test_the_pipeline_outlives_its_leader(bank: Bank) -> None:
    leader = bank.leader()
    survivors = bank.others(leader)

    with bank.payments():
        bank.await_payment(leader)
        leader.kill()
        seconds = bank.await_payment(survivors.processes[0])
    print(f"\nA killed leader: the pipeline went on elsewhere after {seconds:.1f} s (slowness {slowness():.1f})")
    assert seconds < _PIPELINE_AGAIN_SECONDS * slowness()

    bank.await_balances(survivors)
    bank.check_history()
    assert survivors.leader() in survivors.processes


def test_a_leader_that_was_away_writes_nothing_any_more(bank: Bank) -> None:
    zombie = bank.leader()
    survivors = bank.others(zombie)

    with bank.payments():
        bank.await_payment(zombie)
        zombie.freeze()
        seconds = bank.await_payment(survivors.processes[0])
        print(f"\nA frozen leader: the pipeline went on elsewhere after {seconds:.1f} s (slowness {slowness():.1f})")
        zombie.thaw()
        bank.await_payment(survivors.processes[0])
        wait_until(lambda: bank.instances.agree(1), "the one that was away serves again")

    bank.await_balances()
    bank.check_history()
    assert bank.leader() is not zombie


def test_a_process_that_is_no_instance_does_not_keep_the_pipeline(bank: Bank, tmp_path: Path) -> None:
    leader = bank.leader()
    known = len(leader.logged())
    outsider = Process(0, tmp_path)

    with bank.payments():
        bank.run_alone(outsider)
        try:
            wait_until(lambda: "The pipeline runs elsewhere now." in leader.logged()[known:], "the leader is fenced")
            assert outsider.await_end() == 1
        finally:
            outsider.clean_up()
        bank.await_payment(leader)

    assert "Another process runs the application bank and has taken over" in outsider.printed()
    assert bank.leader() is leader
    bank.await_balances()
    bank.check_history()


def test_the_handler_of_a_leader_can_end_all_instances(bank: Bank) -> None:
    before = {process: followed_in(process.logged()) for process in bank.processes}
    for process in bank.processes:
        process.terminate()
    for process in bank.processes:
        assert process.await_end() == 0, process.printed()[-3000:]

    leader, *others = bank.processes
    known = {process: len(process.logged()) for process in others}
    leader.start("-m", "tests.instances.application", str(leader.port), str(bank.state_dir))
    for process in others:
        bank.serve(process)
    wait_until(lambda: bank.instances.agree(1), "all instances are there again")
    bank.pay_some(len(ACCOUNTS))
    bank.await_balances()
    resumed = [
        offset
        for process in others
        for partition, offset in followed_in(process.logged()[known[process] :]).items()
        if partition in before[process]
    ]
    assert resumed and all(resumed)

    bank.poison()

    for process in bank.processes:
        assert process.await_end() == 1, process.printed()[-3000:]
    assert "DeserializationFailed" in leader.printed()
    for process in others:
        assert "Another instance has ended the application" in process.printed()
