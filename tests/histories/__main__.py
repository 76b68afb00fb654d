"""Checks what clients are told while instances die: `python -m tests.histories [--seconds N] [--seed S] [--rolling]`.

A seed gives the same strikes, orders and questions again; what meets what is left to chance.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from headrace.kafka.embedded import EmbeddedKafka
from tests.histories.run import play, roll

_SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.histories")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long instances are struck")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(1_000_000)))
    parser.add_argument(
        "--rolling", type=int, metavar="ROUNDS", help="restart all instances in turn, so often, instead"
    )
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="headrace-histories-"))
    with EmbeddedKafka(directory / "state", port=0) as kafka:
        if given.rolling:
            outcome = roll(kafka, directory, given.rolling, given.seed)
        else:
            outcome = play(kafka, directory, given.seconds, given.seed)
    for violation in outcome.violations[:_SHOWN]:
        print(violation)
    for key in outcome.inexact[:_SHOWN]:
        print(f"{key} was not updated once for each order")
    print(f"{'rolling restart' if given.rolling else 'histories'}, {outcome}")
    if outcome.is_right:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        print(f"The logs of the instances are in {directory}")
    return 0 if outcome.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
