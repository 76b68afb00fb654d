"""What the README of the greetings application says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.greetings import topology
from headrace.kafka.partitions import source_topics
from headrace.topology.nodes import SinkNode
from tests.examples.readme import ROOT, commands_of, prints, run

pytestmark = pytest.mark.acceptance

README = ROOT / "examples" / "greetings" / "README.md"
QUICK, ON_KAFKA = [], []
for command in commands_of(README):
    (ON_KAFKA if command.text.startswith(("headrace demo", "headrace dlq")) else QUICK).append(command)


@pytest.mark.parametrize("command", QUICK, ids=lambda command: command.text)
def test_a_command_prints_what_the_page_shows(command, tmp_path: Path) -> None:
    output = run(command, tmp_path)
    assert prints(output, command.output), output


def test_the_demo_prints_what_the_page_shows(tmp_path: Path) -> None:
    for command in ON_KAFKA:
        output = run(command, tmp_path)
        assert prints(output, command.output), f"{command.text} printed\n{output}"


def test_the_picture_has_the_topics_of_the_topology() -> None:
    (picture,) = re.findall(r"^```mermaid\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    described = topology()
    sinks = {node.topic for node in described.nodes.values() if isinstance(node, SinkNode)}

    assert set(re.findall(r'\(\["([^"]+)"\]\)', picture)) == {*source_topics(described), *sinks}
