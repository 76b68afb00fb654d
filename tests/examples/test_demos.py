"""`headrace demo NAME` as a user runs it, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.examples.readme import ROOT

pytestmark = pytest.mark.acceptance

_PATIENCE_SECONDS = 600.0


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
    ("name", "result"), [("greetings", "anna | greeting "), ("words", "A | words "), ("bank", "alice | balance ")]
)
def test_a_demo_shows_results_and_stops_with_ctrl_c(name: str, result: str, tmp_path: Path) -> None:
    with demo(name, tmp_path) as process:
        assert process.stdout is not None
        seen: list[str] = []
        for line in process.stdout:
            seen.append(line)
            if line.startswith(result):
                break
        else:
            pytest.fail(f"It shows no result:\n{''.join(seen)}")

        os.killpg(process.pid, signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait() == 0, rest

    if "Left without waiting" not in rest:  # a machine with too much to do leaves after 10 seconds, as it is
        assert "Stopped: " in rest
        assert not list(tmp_path.glob("headrace-demo-*")), "its data is still there"
