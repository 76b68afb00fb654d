"""The commands of the project's README, with the topology that it shows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer

from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from tests.examples.readme import ROOT
from tests.instances.processes import free_ports, wait_until
from tests.unit.test_docs_snippets import python_blocks

README = ROOT / "README.md"
_COMMANDS = [
    re.sub(r"\s+# .*", "", line)
    for block in re.findall(r"^```sh\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
MAKE = [command for command in _COMMANDS if command.startswith("make ")]
ALONE, FIRST, SECOND, QUERY = (command for command in _COMMANDS if command not in MAKE)
_PATIENCE_SECONDS = 500.0


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with the module that the page tells to make."""
    (_, topology), *_ = python_blocks(README.read_text())
    (tmp_path / "shop.py").write_text(topology.replace("print(orders_per_store().describe())\n", ""))
    return tmp_path


def environment(directory: Path, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "XDG_STATE_HOME": str(directory / "home"),
        **more,
    }


@contextmanager
def started(command: str, directory: Path, announces: str) -> Iterator[None]:
    """The command from when it has printed something until Ctrl-C, which it takes well."""
    printed = directory / f"{abs(hash(command))}.txt"
    with printed.open("w") as output:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=directory,
            env=environment(directory),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_until(
            lambda: process.poll() is not None or announces in printed.read_text(),
            f"{command} prints {announces}",
            _PATIENCE_SECONDS,
        )
        assert process.poll() is None, printed.read_text()
        yield
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(_PATIENCE_SECONDS) == 0, printed.read_text()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def send_orders(servers: str) -> None:
    """Two orders that count, in one window, and one that does not."""
    producer = Producer({"log_level": 0, **ClientSettings(servers).producer(partitioner="murmur2_random")})
    for amount, time in ((30, 15_000), (-5, 16_000), (12, 29_999)):
        producer.produce("orders", f'{{"amount": {amount}}}', "store_1", timestamp=1_700_000_010_000 + time)
    assert producer.flush(60) == 0


@pytest.mark.acceptance
def test_the_application_runs_alone(directory: Path) -> None:
    with started(ALONE, directory, "RUNNING | "):
        pass


@pytest.mark.acceptance
def test_two_instances_answer_for_it(directory: Path) -> None:
    ports = dict(zip(("8080", "8081"), map(str, free_ports(2)), strict=True))
    first, second = (re.sub(r"808[01]", lambda port: ports[port[0]], command) for command in (FIRST, SECOND))
    state_dir = directory / "home" / "headrace"
    # Whoever keeps its state there shares this Kafka: the usual port may be taken.
    with (
        EmbeddedKafka(state_dir, port=0) as kafka,
        started(first, directory, "Answers at"),
        started(second, directory, "Answers at"),
    ):
        send_orders(kafka.bootstrap_servers)
        for port in ports.values():
            url = f"http://127.0.0.1:{port}"
            wait_until(partial(is_counted, url, directory), "the orders are counted", _PATIENCE_SECONDS)
            (path,) = re.findall(r"`GET (/v1/stores\S+)`", README.read_text())
            assert [each["value"] for each in httpx.get(f"{url}{path}", timeout=60).json()["entries"]] == [2]
            assert httpx.get(f"{url}/docs", timeout=60).status_code == 200


def is_counted(url: str, directory: Path) -> bool:
    """Whether an instance answers the page's question with both orders."""
    asked = subprocess.run(
        QUERY,
        shell=True,
        cwd=directory,
        env=environment(directory, HEADRACE_URL=url),
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE_SECONDS,
    )
    return asked.stdout == "store_1\t[1700000025000, 1700000040000)\t2\n"


def test_other_commands_are_those_of_make() -> None:
    """`make demo` has a test of its own, and this is `make test`."""
    assert MAKE == ["make demo", "make test"]
