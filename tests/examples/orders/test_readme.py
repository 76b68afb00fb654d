"""What the README of the orders application says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from examples.orders import topology
from headrace.kafka.embedded import EmbeddedKafka
from headrace.topology.nodes import SinkNode
from tests.examples.readme import ROOT, Command, commands_of, prints, run
from tests.instances.processes import free_ports, wait_until

pytestmark = pytest.mark.acceptance

README = ROOT / "examples" / "orders" / "README.md"
PICTURES = re.findall(r"^```mermaid\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
_PATIENCE_SECONDS = 500.0


def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    # Whoever names the directory shares this Kafka, and the usual port may be taken.
    with EmbeddedKafka(tmp_path / "shop", port=0), ExitStack() as stack:
        for command in commands_of(README):
            moved = Command(command.text.replace("8080", str(port)), command.output.replace("8080", str(port)))
            if moved.text.endswith(" &"):
                stack.enter_context(in_background(moved, tmp_path))
            elif moved.text.startswith("curl"):
                await_answer(moved, tmp_path)
            else:
                output = run(moved, tmp_path)
                assert prints(output, moved.output), f"{moved.text} printed\n{output}"


@contextmanager
def in_background(command: Command, directory: Path) -> Iterator[None]:
    """The command while others run, from when it has printed what the page shows."""
    printed = directory / "printed.txt"
    with printed.open("w") as output:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command.text.removesuffix(' &')}"],
            cwd=directory,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_until(
            lambda: process.poll() is not None or prints(printed.read_text(), f"{command.output}…\n"),
            f"{command.text} prints {command.output}",
            _PATIENCE_SECONDS,
        )
        assert process.poll() is None, printed.read_text()
        yield
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(_PATIENCE_SECONDS) == 0, printed.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def await_answer(command: Command, directory: Path) -> None:
    """Sees that the answer is the one of the page: a question is asked until it is, as batches take their time."""
    is_question = " -d " not in command.text
    answers = []

    def is_right() -> bool:
        answers.append(run(command, directory).rstrip() + "\n")
        return prints(answers[-1], command.output) or not is_question

    try:
        wait_until(is_right, command.text, _PATIENCE_SECONDS)
    finally:
        assert prints(answers[-1], command.output), f"{command.text} printed\n{answers[-1]}"


def test_the_whole_picture_is_that_of_the_topology(tmp_path: Path) -> None:
    (command,) = re.findall(r"<summary>(.+)</summary>", README.read_text())
    assert run(Command(command, PICTURES[1]), tmp_path).strip() == PICTURES[1].strip()


def test_the_first_picture_has_the_topics_and_stores_of_general_orders() -> None:
    described = topology()
    topics = set(re.findall(r'\(\["([^"… ]+)"\]\)', PICTURES[0]))
    sinks = {node.topic for node in described.nodes.values() if isinstance(node, SinkNode)}

    assert topics == {"orders", "stores"} | {each for each in sinks if str(each).startswith("general_")}
    assert set(re.findall(r'\[\("([^"]+)"\)\]', PICTURES[0])) == {
        each for each in described.stores if each.startswith(("general_", "stores"))
    }
