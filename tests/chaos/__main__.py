"""The kill test: `python -m tests.chaos [--rounds N] [--seed SEED …]`.

Random rounds, then one for each phase, then one for each trouble with three brokers. A seed, as printed with its round,
repeats the round.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

from headrace.kafka.embedded import EmbeddedKafka
from tests.chaos.cluster import KafkaCluster
from tests.chaos.cluster_rounds import ALL_CLUSTER_KINDS, CLUSTER_KINDS, play_on_cluster
from tests.chaos.rounds import PHASES, VICTIMS, Outcome, Scene, play

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
    with ExitStack() as stack:
        scenes = _Scenes(stack, directory, given.orders, given.batch)
        for number, seed in enumerate(seeds, 1):
            outcome = scenes.play(seed)
            while outcome.is_void and not given.seed:
                print(f"round {number} of {len(seeds)}  {outcome}; it is played again", flush=True)
                outcome = scenes.play(_seed(seed.rpartition("-")[0]))
            exact += not outcome.problems
            print(f"round {number} of {len(seeds)}  {outcome}", flush=True)
    if exact == len(seeds):
        shutil.rmtree(directory, ignore_errors=True)
    else:
        print(f"What the rounds that were not exact left behind is in {directory}")
    print(f"chaos {exact} of {len(seeds)} rounds exact")
    return 0 if exact == len(seeds) else 1


class _Scenes:
    """One broker and three, each started with the first round that needs it."""

    def __init__(self, stack: ExitStack, directory: Path, orders: int, records_a_batch: int) -> None:
        self._stack = stack
        self._directory = directory
        self._orders = orders
        self._records_a_batch = records_a_batch

    def play(self, seed: str) -> Outcome:
        """Plays the round of a seed where it belongs."""
        if seed.rpartition("-")[0] in ALL_CLUSTER_KINDS:
            return play_on_cluster(self._three, seed)
        return play(self._one, seed)

    @cached_property
    def _one(self) -> Scene:
        kafka = self._stack.enter_context(EmbeddedKafka(self._directory / "kafka", port=0))
        return Scene.set(kafka, self._directory, self._orders, self._records_a_batch)

    @cached_property
    def _three(self) -> Scene:
        kafka = self._stack.enter_context(KafkaCluster(self._directory / "cluster"))
        return Scene.set(kafka, self._directory, self._orders, self._records_a_batch)


def _new_seeds(rounds: int) -> list[str]:
    at_random = (VICTIMS[number % len(VICTIMS)] for number in range(rounds))
    return [_seed(kind) for kind in (*at_random, *PHASES, *CLUSTER_KINDS)]


def _seed(kind: str) -> str:
    return f"{kind}-{random.SystemRandom().randrange(_SEEDS)}"


if __name__ == "__main__":
    sys.exit(main())
