"""The log of an application, which other processes write to as well."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.cli import terminal

LINES = 2_000


def test_the_log_is_rotated_while_others_write_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It grew without limit."""
    monkeypatch.setattr(terminal, "MOST_LOG_BYTES", 20_000)
    monkeypatch.setattr(terminal, "_LOOK_SECONDS", 0.01)
    log = tmp_path / "logs" / "app.log"
    script = f"import time\nfor number in range({LINES}): print('x' * 50, number, flush=True); time.sleep(0.0005)"
    with terminal.chatter_in(log, "info"):
        child = subprocess.Popen([sys.executable, "-c", script])
        deadline = time.monotonic() + 60
        while child.poll() is None:
            assert log.stat().st_size < LINES * 50 / 2
            assert time.monotonic() < deadline
            time.sleep(0.01)
    kept = [log, tmp_path / "logs" / "app.log.1", tmp_path / "logs" / "app.log.2"]
    assert sorted(log.parent.iterdir()) == kept
    assert all(each.stat().st_mode & 0o077 == 0 for each in kept)
    content = b"".join(each.read_bytes() for each in reversed(kept))
    assert b"\0" not in content, "whoever writes goes on at the beginning of the emptied file"
    assert content.endswith(f"{LINES - 1}\n".encode())
