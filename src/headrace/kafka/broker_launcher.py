"""Becomes the broker's JVM, so that it ends with its keeper: `python broker_launcher.py KEEPER_PID PID_FILE JAVA …`.

Run as a file, without the package: it has to be quick.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(keeper: int, pid_file: str, command: list[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != keeper:  # it ended before the kernel was told to watch it
        sys.exit(1)
    with open(pid_file, "w") as file:
        file.write(str(os.getpid()))
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
