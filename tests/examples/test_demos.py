"""`headrace demo NAME` as a user runs it, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.examples.readme import ROOT
from tests.instances.processes import wait_until

pytestmark = pytest.mark.acceptance

_PATIENCE_SECONDS = 600.0
_LEFTOVERS_SECONDS = 60.0


@contextmanager
def demo(name: str, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """The command in a process group of its own, as in a terminal; one that hangs is killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace", "demo", name, "--rate", "50"],
        cwd=directory,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
            "TMPDIR": str(directory),
            "XDG_STATE_HOME": str(directory / "state"),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    patience = threading.Timer(_PATIENCE_SECONDS, os.killpg, [process.pid, signal.SIGKILL])
    patience.start()
    try:
        yield process
    finally:
        patience.cancel()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("greetings", "anna | greeting "),
        ("words", "A | words "),
        ("orders", "store_1234 general | "),
        ("bank", "alice | balance "),
    ],
)
def test_a_demo_shows_results_and_stops_with_ctrl_c(name: str, result: str, tmp_path: Path) -> None:
    with demo(name, tmp_path) as process:
        seen = read_up_to(result, process)
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout is not None
        rest = process.stdout.read()
        assert process.wait() == 0, rest

    # A machine with too much to do leaves after 10 seconds, as it is.
    assert "Stopped: " in rest or "Left without waiting" in rest, f"{seen}{rest}"
    await_nothing_left(tmp_path)


@pytest.mark.parametrize("moment", ["The balances of a bank.", "Topics: "])
def test_a_demo_that_has_not_started_yet_stops_with_ctrl_c(moment: str, tmp_path: Path) -> None:
    with demo("bank", tmp_path) as process:
        read_up_to(moment, process)
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout is not None
        rest = process.stdout.read()
        assert process.wait() == 0, rest

    assert "Stopped before it had started." in rest or "Left without waiting" in rest
    await_nothing_left(tmp_path)


def test_a_demo_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    with demo("greetings", tmp_path) as process:
        read_up_to("Dashboard: ", process)
        process.kill()

    await_nothing_left(tmp_path)


def read_up_to(beginning: str, process: subprocess.Popen[str]) -> str:
    """What the demo says until a line begins so."""
    assert process.stdout is not None
    seen: list[str] = []
    for line in process.stdout:
        seen.append(line)
        if line.startswith(beginning):
            return "".join(seen)
    pytest.fail(f"No line begins with {beginning!r}:\n{''.join(seen)}")


def await_nothing_left(directory: Path) -> None:
    """Sees that the data of a demo goes, and whatever it has started ends."""
    wait_until(lambda: not list(directory.glob("headrace-demo-*")), "its data is removed", _LEFTOVERS_SECONDS)
    wait_until(lambda: not processes_with(directory), "all that it has started has ended", _LEFTOVERS_SECONDS)


def processes_with(temporary: Path) -> list[str]:
    """The commands of processes that have been told to use the temporary directory, as a demo and its children are."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"TMPDIR={temporary}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text().replace("\0", " "))
    return found
