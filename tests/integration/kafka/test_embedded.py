"""The embedded Kafka: the real broker, real processes, real kills."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from headrace.errors import EnvironmentFailed
from headrace.kafka.broker import free_port
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka, default_state_dir
from headrace.kafka.home import HOST
from headrace.kafka.topics import Topics, TopicSpec
from tests.integration.kafka.records import consume, produce
from tests.integration.kafka.users import User, alive, endpoint_of, eventually, running_broker

Users = Callable[[], User]


def test_it_takes_and_gives_records_and_keeps_them_over_a_restart_on_another_port(state_dir: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        wished = taken.getsockname()[1]
        with EmbeddedKafka(state_dir, port=wished) as kafka:
            first_servers = kafka.bootstrap_servers
            assert first_servers.startswith(f"{HOST}:")
            assert first_servers != f"{HOST}:{wished}"
            Topics(ClientSettings(first_servers)).create([TopicSpec("orders", 1)])
            # Old timestamps too: nothing is deleted by age.
            produce(first_servers, "orders", ["a", "b"], timestamp=1000)
            assert consume(first_servers, "orders", 2) == ["a", "b"]
            keeper, broker = running_broker(state_dir)
    assert not alive(broker)
    eventually(lambda: not alive(keeper))

    with EmbeddedKafka(state_dir, port=wished) as kafka:
        assert kafka.bootstrap_servers == f"{HOST}:{wished}"
        produce(kafka.bootstrap_servers, "orders", ["c"], timestamp=1000)
        assert consume(kafka.bootstrap_servers, "orders", 3) == ["a", "b", "c"]


def test_it_takes_settings_of_kafka_and_keeps_offsets_as_long_as_kafka_does(state_dir: Path) -> None:
    def retention(kafka: EmbeddedKafka) -> str:
        broker = ConfigResource(ResourceType.BROKER, "1")
        admin = AdminClient(ClientSettings(kafka.bootstrap_servers).admin())
        return str(admin.describe_configs([broker])[broker].result(30)["offsets.retention.minutes"].value)

    with EmbeddedKafka(state_dir, port=0, settings={"offsets.retention.minutes": 1}) as kafka:
        assert retention(kafka) == "1"
    with EmbeddedKafka(state_dir, port=0) as kafka:
        assert retention(kafka) == str(7 * 24 * 60)


def test_two_brokers_that_want_the_same_port_at_once_get_one_each(tmp_path: Path) -> None:
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        port = free_port()
        brokers = [EmbeddedKafka(tmp_path / name, port=port) for name in ("one", "other")]
        list(pool.map(lambda kafka: stack.enter_context(kafka), brokers))

        for number, kafka in enumerate(brokers):
            Topics(ClientSettings(kafka.bootstrap_servers)).create([TopicSpec(f"topic-{number}", 1)])
        for number, kafka in enumerate(brokers):
            assert list(Topics(ClientSettings(kafka.bootstrap_servers)).describe()) == [f"topic-{number}"]


def test_processes_share_one_broker_until_the_last_is_gone_even_when_killed(user: Users, state_dir: Path) -> None:
    first, second = user(), user()
    servers = first.bootstrap_servers()
    assert second.bootstrap_servers() == servers
    keeper, broker = running_broker(state_dir)

    first.kill()
    third = user()
    assert third.bootstrap_servers() == servers
    third.leave()
    Topics(ClientSettings(servers)).create([TopicSpec("still-there", 1)])
    assert running_broker(state_dir) == (keeper, broker)

    second.kill()
    eventually(lambda: not alive(broker) and not alive(keeper))
    assert endpoint_of(state_dir) is None

    # One that comes while the last broker ends gets a new one, with the same data.
    last = user()
    last.bootstrap_servers()
    last.process.kill()
    with EmbeddedKafka(state_dir, port=0) as kafka:
        assert "still-there" in Topics(ClientSettings(kafka.bootstrap_servers)).describe()


def test_a_broker_that_is_killed_comes_back_on_the_same_port_for_its_users(user: Users, state_dir: Path) -> None:
    servers = user().bootstrap_servers()
    keeper, broker = running_broker(state_dir)
    Topics(ClientSettings(servers)).create([TopicSpec("orders", 1)])
    produce(servers, "orders", ["before"])

    os.kill(broker, signal.SIGKILL)
    eventually(lambda: (found := endpoint_of(state_dir)) is not None and found.broker != broker)
    produce(servers, "orders", ["after"])

    assert consume(servers, "orders", 2) == ["before", "after"]
    assert running_broker(state_dir)[0] == keeper


def test_a_keeper_that_is_killed_is_replaced_and_leaves_no_second_broker(user: Users, state_dir: Path) -> None:
    one, other = user(), user()
    servers = one.bootstrap_servers()
    other.bootstrap_servers()
    keeper, broker = running_broker(state_dir)
    Topics(ClientSettings(servers)).create([TopicSpec("orders", 1)])

    os.kill(keeper, signal.SIGKILL)
    eventually(lambda: (found := endpoint_of(state_dir)) is not None and found.keeper != keeper)
    assert not alive(broker)
    new_keeper, new_broker = running_broker(state_dir)
    produce(servers, "orders", ["after"])
    assert consume(servers, "orders", 1) == ["after"]

    for process in (one, other):
        process.process.kill()
    os.kill(new_keeper, signal.SIGKILL)
    eventually(lambda: not alive(new_broker))


def test_a_child_by_fork_neither_keeps_nor_ends_the_broker(state_dir: Path) -> None:
    kafka = EmbeddedKafka(state_dir, port=0).start()
    _, broker = running_broker(state_dir)
    go_on, waits = os.pipe()[::-1]
    child = os.fork()
    if child == 0:
        kafka.close()
        os.close(go_on)
        os.read(waits, 1)
        os._exit(0)
    assert running_broker(state_dir)[1] == broker
    kafka.close()
    assert not alive(broker)
    os.close(go_on)
    assert os.waitpid(child, 0)[1] == 0


def test_data_of_something_else_is_refused_and_not_touched(tmp_path: Path) -> None:
    stranger = tmp_path / "kafka" / "data" / "meta.properties"
    stranger.parent.mkdir(parents=True)
    stranger.write_text("version=1\nnode.id=7\ncluster.id=theirs\n")
    with pytest.raises(EnvironmentFailed, match=r"not the data of an embedded Kafka. Choose another place"):
        EmbeddedKafka(tmp_path, port=0).start()
    assert stranger.read_text().endswith("cluster.id=theirs\n")


def test_a_broker_that_dies_at_its_start_ends_in_an_error_with_its_log(tmp_path: Path) -> None:
    quorum = tmp_path / "kafka" / "data" / "__cluster_metadata-0" / "quorum-state"
    quorum.parent.mkdir(parents=True)
    quorum.write_text("{}")
    meta = "version=1\nnode.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\ndirectory.id=bUVlVx5JQOqcRdTgLSXQpw\n"
    (tmp_path / "kafka" / "data" / "meta.properties").write_text(meta)
    with pytest.raises(EnvironmentFailed, match=r"(?s)ended by itself. \(exit code 1; .*broker.log\)\n.*quorum"):
        EmbeddedKafka(tmp_path, port=0).start()
    assert endpoint_of(tmp_path) is None


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailed, match=r"file/kafka .*cannot be made: .*--state-dir"):
        EmbeddedKafka(tmp_path / "file").start()


def test_without_java_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("headrace.kafka.java._INSTALL_ROOTS", ())
    with pytest.raises(EnvironmentFailed, match="Java 17 or 21 is needed: no Java was found"):
        EmbeddedKafka(tmp_path).start()


def test_the_address_is_there_only_while_it_runs(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match="not started"):
        _ = EmbeddedKafka(tmp_path).bootstrap_servers


def test_state_is_kept_in_the_users_directory_for_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_state_dir() == tmp_path / "headrace"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert default_state_dir() == Path.home() / ".local" / "state" / "headrace"
