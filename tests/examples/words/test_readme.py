"""What the README of the words application says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.words import topology
from examples.words.joins import JOINS
from headrace.kafka.partitions import source_topics
from headrace.topology.nodes import SinkNode
from tests.examples.readme import ROOT, commands_of, prints, run

pytestmark = pytest.mark.acceptance

README = ROOT / "examples" / "words" / "README.md"


@pytest.mark.parametrize("command", commands_of(README), ids=lambda command: command.text)
def test_a_command_prints_what_the_page_shows(command, tmp_path: Path) -> None:
    output = run(command, tmp_path)
    assert prints(output, command.output), output


def test_the_picture_has_the_topics_and_stores_of_the_topology() -> None:
    (picture,) = re.findall(r"^```mermaid\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    described = topology()
    sinks = {node.topic for node in described.nodes.values() if isinstance(node, SinkNode)}

    assert set(re.findall(r'\(\["([^"]+)"\]\)', picture)) == {*source_topics(described), *sinks}
    assert set(re.findall(r'\[\("([^"]+)"\)\]', picture)) == set(described.stores)


def test_the_table_has_every_join() -> None:
    rows = [line for line in README.read_text().splitlines() if re.match(r"\| (stream|table) with", line)]

    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named | {"repartitioned"} == set(JOINS)
