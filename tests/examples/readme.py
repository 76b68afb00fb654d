"""Runs the commands of a README and compares what they print.

A command is a line `$ …` of a ```console block; what follows is its output. A line `…` stands for any lines, and
numbers of seconds and dates are not compared, nor is the offset before a date, which depends on the batches.
A page with processes in the background (`… &`) needs one shell for all of it: `Shell`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"(offset \d+, )?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?|\d+(\.\d+)? s\b")
_ASKS = re.compile(r"curl -s (?!-X)")
_PATIENCE_SECONDS = 600.0
_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class Command:
    """A command and what it is to print."""

    text: str
    output: str


def commands_of(page: Path) -> list[Command]:
    """The commands of a page, in order."""
    found = []
    for block in _BLOCK.findall(page.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            text, _, output = part.partition("\n")
            found.append(Command(text, output))
    return found


def run(command: Command, directory: Path) -> str:
    """What the command prints, started in the directory with the examples at hand."""
    done = subprocess.run(
        command.text,
        shell=True,
        cwd=directory,
        env=_environment(directory),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command.text} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def prints(output: str, expected: str) -> bool:
    """Whether the output is the one of the page."""
    parts = [re.escape(_TIME.sub("<time>", part)) for part in re.split(r"^…\n", expected, flags=re.MULTILINE)]
    return re.fullmatch("(?:.*\n)*".join(parts), _TIME.sub("<time>", output)) is not None


class Shell:
    """One shell for the commands of a page: what is started with `&` goes on until the shell is closed."""

    def __init__(self, directory: Path) -> None:
        self._output, self._errors = directory / "shell.txt", directory / "shell-errors.txt"
        self._process = subprocess.Popen(
            ["bash"],
            cwd=directory,
            env=_environment(directory),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, command: Command) -> str:
        """What the command prints. One that only asks, `curl -s …`, is repeated until the answer is the page's."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        output = self._run(command.text)
        while _ASKS.match(command.text) and not prints(output, command.output) and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
            output = self._run(command.text)
        return output

    def close(self) -> None:
        """Ends the shell and what it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def _run(self, text: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        patience = threading.Timer(_PATIENCE_SECONDS, self.close)
        patience.start()
        self._process.stdin.write(f"{{ {text}\n}} > {self._output} 2> {self._errors} < /dev/null\necho $?\n")
        self._process.stdin.flush()
        code = self._process.stdout.readline().strip()
        patience.cancel()
        output = self._output.read_text()
        is_well = code == "0" or _ASKS.match(text)
        assert is_well, f"{text} ended with {code}:\n{output}{self._errors.read_text()}"
        return output if output.endswith("\n") or not output else f"{output}\n"


def _environment(directory: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
        "XDG_STATE_HOME": str(directory / "state"),
    }
