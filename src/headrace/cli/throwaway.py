"""A directory that goes when its process does, however that ends.

Whoever kills the process, or leaves it without waiting, ends what would have removed the directory. So a guard, a
process of its own, waits for the end: it holds the other end of a pipe. This file is the guard's program too, which
is why it imports nothing of the library.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PAUSE_SECONDS = 0.5
_QUIET_SECONDS = 3.0
_PATIENCE_SECONDS = 60.0


@contextmanager
def throwaway_directory(prefix: str) -> Iterator[Path]:
    """A temporary directory for as long as the block runs."""
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is not for the guard
    )
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        assert guard.stdin is not None
        guard.stdin.close()


def _guard(directory: Path) -> None:
    """Removes the directory when nobody is at the other end of standard input any more.

    Kafka and Spark notice the end of their user a little later, and may still write something: so it looks again.
    """
    sys.stdin.buffer.read()
    now = time.monotonic()
    last_seen, deadline = now - _QUIET_SECONDS, now + _PATIENCE_SECONDS
    while directory.exists() or time.monotonic() < last_seen + _QUIET_SECONDS:
        now = time.monotonic()
        if now > deadline:
            return
        if directory.exists():
            last_seen = now
            shutil.rmtree(directory, ignore_errors=True)
        time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    _guard(Path(sys.argv[1]))
