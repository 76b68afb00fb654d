"""Locks on files, between processes: the kernel lets go of them when a process ends, however it ends.

A lock belongs to the open file. A child that inherits the descriptor holds the lock too, so a lock can be handed on to
a child without a moment in which it is free.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.private_files import PRIVATE_FILE


class Lock:
    """An open file with a lock on it, or none yet."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def on(cls, path: Path) -> Lock:
        """Opens the file, without a lock so far."""
        return cls(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE))

    def share(self) -> None:
        """Waits for the lock, to be held together with others that share it."""
        fcntl.flock(self.fd, fcntl.LOCK_SH)

    def own(self) -> None:
        """Waits for the lock, to be held by nobody else."""
        fcntl.flock(self.fd, fcntl.LOCK_EX)

    def try_share(self) -> bool:
        """Takes the lock together with others that share it, unless somebody owns it."""
        return self._try(fcntl.LOCK_SH)

    def try_own(self) -> bool:
        """Takes the lock alone, unless somebody has it."""
        return self._try(fcntl.LOCK_EX)

    def own_within(self, seconds: float) -> bool:
        """Waits for the lock, to be held by nobody else, but not longer than told."""
        deadline = time.monotonic() + seconds
        while not self.try_own():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def close(self) -> None:
        """Closes the file. The lock is free once every process that inherited it has done the same."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _try(self, operation: int) -> bool:
        try:
            fcntl.flock(self.fd, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def owned(path: Path) -> Iterator[None]:
    """Holds the lock on the file alone while the block runs."""
    lock = Lock.on(path)
    try:
        lock.own()
        yield
    finally:
        lock.close()
