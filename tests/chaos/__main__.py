"""The kill test: `python -m tests.chaos [--rounds N] [--seed SEED …]`.

Random rounds, then one for each phase. A seed, as printed with its round, repeats the round.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from headrace.kafka.embedded import EmbeddedKafka
from tests.chaos.rounds import PHASES, VICTIMS, Scene, play

_SEEDS = 1_000_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--rounds", type=int, default=30, help="how many rounds strike at random moments")
    parser.add_argument("--seed", nargs="+", help="repeat only the rounds of these seeds, such as worker-4711")
    parser.add_argument("--orders", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=8_000, help="how many orders a batch takes at most")
    given = parser.parse_args()
    seeds = given.seed or _new_seeds(given.rounds)
    directory = Path(tempfile.mkdtemp(prefix="headrace-chaos-"))
    exact = 0
    with EmbeddedKafka(directory / "kafka", port=0) as kafka:
        scene = Scene.set(kafka, directory, given.orders, given.batch)
        for number, seed in enumerate(seeds, 1):
            outcome = play(scene, seed)
            while outcome.is_void and not given.seed:
                print(f"round {number} of {len(seeds)}  {outcome}; it is played again", flush=True)
                outcome = play(scene, _seed(seed.rpartition("-")[0]))
            exact += not outcome.problems
            print(f"round {number} of {len(seeds)}  {outcome}", flush=True)
    if exact == len(seeds):
        shutil.rmtree(directory, ignore_errors=True)
    else:
        print(f"What the rounds that were not exact left behind is in {directory}")
    print(f"chaos {exact} of {len(seeds)} rounds exact")
    return 0 if exact == len(seeds) else 1


def _new_seeds(rounds: int) -> list[str]:
    return [_seed(kind) for kind in (*(VICTIMS[number % len(VICTIMS)] for number in range(rounds)), *PHASES)]


def _seed(kind: str) -> str:
    return f"{kind}-{random.SystemRandom().randrange(_SEEDS)}"


if __name__ == "__main__":
    sys.exit(main())
