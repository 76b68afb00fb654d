"""Every block of a page of the examples is one that a test runs or compares."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.examples.readme import ROOT, commands_of

PAGES = sorted((ROOT / "examples").glob("*/README.md"))
RUN = {"console", "python", "mermaid"}
"""Commands with their output; code; the picture of the topology."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_every_block_is_of_a_kind_that_is_run(page: Path) -> None:
    opened = [
        kind for index, kind in enumerate(re.findall(r"^```(.*)$", page.read_text(), re.MULTILINE)) if not index % 2
    ]

    assert set(opened) <= RUN
    assert (Path(__file__).parent / page.parent.name / "test_readme.py").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_every_line_of_a_console_belongs_to_a_command(page: Path) -> None:
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)

    assert all(block.startswith("$ ") for block in blocks)
    shown = "".join(f"$ {command.text}\n{command.output}" for command in commands_of(page))
    assert shown == "".join(blocks)
