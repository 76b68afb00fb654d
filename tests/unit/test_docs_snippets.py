"""Every ```python block of the README, the docs and the examples runs, each file's blocks in order in one namespace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("**/*.md"), *(ROOT / "examples").glob("*/README.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def python_blocks(text: str) -> list[tuple[int, str]]:
    """Each block with the number of its first line."""
    return [(text.count("\n", 0, match.start(1)) + 1, match.group(1)) for match in BLOCK.finditer(text)]


def test_the_readme_has_snippets() -> None:
    assert python_blocks((ROOT / "README.md").read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_run(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "snippet"}
    for line, block in python_blocks(page.read_text()):
        # Leading newlines make a traceback show the page's own line numbers.
        code = compile("\n" * (line - 1) + block, str(page), "exec")
        exec(code, namespace)
        # pytest-style tests in a block are called, so that what they claim is checked.
        for name in re.findall(r"^def (test_\w+)\(\)", block, re.MULTILINE):
            function = namespace[name]
            assert callable(function)
            function()
