"""An instance in a process of its own: `python -m tests.histories.application …`, with the arguments of `headrace`.

It is the command line as users start it, but each transaction stays open for a moment, and SIGUSR2 has the process die
in the middle of its next one. With `--clock-jumps` before all else, its clock is set by hours each second.
"""

from __future__ import annotations

import signal
import sys

from headrace.cli import main as headrace
from tests.chaos.phases import AFTER_PRODUCE, Doom

CLOCK_JUMPS = "--clock-jumps"
_PAUSE_SECONDS = 0.03


def main() -> None:
    clock_jumps = sys.argv[1] == CLOCK_JUMPS
    if clock_jumps:
        del sys.argv[1]
    doom = Doom(None, pause_seconds=_PAUSE_SECONDS, clock_jumps=clock_jumps)
    signal.signal(signal.SIGUSR2, lambda *_: doom.aim_at(AFTER_PRODUCE))
    headrace()


if __name__ == "__main__":
    main()
