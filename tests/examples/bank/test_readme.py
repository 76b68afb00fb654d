"""What the README of the bank says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.bank import topology
from headrace.kafka.partitions import source_topics
from headrace.topology.nodes import SinkNode
from tests.examples.readme import ROOT, Command, Shell, commands_of, prints
from tests.instances.processes import free_ports

pytestmark = pytest.mark.acceptance

README = ROOT / "examples" / "bank" / "README.md"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.close()


def test_the_commands_print_what_the_page_shows(shell: Shell) -> None:
    ports = dict(zip(("9001", "9002", "9003"), map(str, free_ports(3)), strict=True))

    def at_free_ports(text: str) -> str:
        return re.sub(r"\b900[123]\b", lambda port: ports[port[0]], text)

    for command in commands_of(README):
        moved = Command(at_free_ports(command.text), at_free_ports(command.output))
        output = shell.run(moved)
        assert prints(output, moved.output), f"{moved.text} printed\n{output}"


def test_the_picture_has_the_topics_and_stores_of_the_topology() -> None:
    (picture,) = re.findall(r"^```mermaid\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    described = topology()
    sinks = {node.topic for node in described.nodes.values() if isinstance(node, SinkNode)}

    assert set(re.findall(r'\(\["([^"]+)"\]\)', picture)) == {*source_topics(described), *sinks}
    assert set(re.findall(r'\[\("([^"]+)"\)\]', picture)) == set(described.stores)
