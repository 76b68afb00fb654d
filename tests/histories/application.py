"""An instance in a process of its own: `python -m tests.histories.application …`, with the arguments of `headrace`.

It is the command line as users start it, but each transaction stays open for a moment, and SIGUSR2 has the process die
in the middle of its next one.
"""

from __future__ import annotations

import signal

from headrace.cli import main as headrace
from tests.chaos.phases import AFTER_PRODUCE, Doom

_PAUSE_SECONDS = 0.03


def main() -> None:
    doom = Doom(None, pause_seconds=_PAUSE_SECONDS)
    signal.signal(signal.SIGUSR2, lambda *_: doom.aim_at(AFTER_PRODUCE))
    headrace()


if __name__ == "__main__":
    main()
