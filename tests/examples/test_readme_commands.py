"""How the commands of READMEs are found and compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.readme import Command, Shell, commands_of, prints


def test_commands_are_found_with_their_output(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("Text\n\n```console\n$ one --a\n1\n2\n$ two\n```\n\n```sh\n$ not this\n```\n")

    assert commands_of(page) == [Command("one --a", "1\n2\n"), Command("two", "")]


def test_output_is_compared_but_for_times_and_what_is_left_out() -> None:
    assert prints("a 3.2 s\n2026-01-05 12:00:00.123+00:00\n", "a 17 s\n2025-12-31 00:00:00.000+00:00\n")
    assert prints("a\nb\nc\nd\n", "a\n…\nd\n")
    assert prints("a\nd\n", "a\n…\nd\n")
    assert not prints("a\nb\nd\n", "a\nd\n")
    assert not prints("a\nd\n", "a\n…\nc\n")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.close()


def test_what_is_started_in_the_background_goes_on_until_it_is_ended(shell: Shell) -> None:
    assert shell.run(Command("sleep 1000 > log.txt &", "")) == ""
    assert shell.run(Command("jobs -r | grep -c sleep", "1\n")) == "1\n"
    shell.run(Command("kill -9 %1", ""))
    shell.run(Command("wait", ""))
    assert shell.run(Command("jobs -r", "")) == ""


def test_a_question_is_asked_again_until_the_answer_is_that_of_the_page(shell: Shell, tmp_path: Path) -> None:
    """The answer is one line longer every time."""
    curl = tmp_path / "curl"
    curl.write_text("#!/bin/sh\necho again >> asked.txt\ncat asked.txt\n")
    curl.chmod(0o755)
    shell.run(Command('PATH="$PWD:$PATH"', ""))

    assert shell.run(Command("curl -s here", "again\nagain\nagain\n")) == "again\nagain\nagain\n"
    assert len(shell.run(Command("curl -s -X POST here", "again\n")).splitlines()) == 4


def test_a_command_that_fails_is_told_of(shell: Shell) -> None:
    with pytest.raises(AssertionError, match=r"false ended with 1"):
        shell.run(Command("false", ""))
