"""What happens to instances at random moments: they are killed, stopped for a while, ended, and started again."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Collection, Sequence

from tests.histories.shop import Shop
from tests.instances.processes import Process, wait_until

KILL = "kill"
KILL_IN_TRANSACTION = "kill in transaction"
STOP = "stop and continue"
END = "end"
KINDS = (KILL, KILL_IN_TRANSACTION, STOP, END)

_SHORT_STOP_SECONDS = (0.3, 3.0)
_LONG_STOP_SECONDS = (6.5, 10.0)
"""Longer than it takes until Kafka gives the partitions to others."""


class Strikes:
    """Strikes instances one after the other; at least one goes on all the time."""

    kinds: Sequence[str] = KINDS
    pause_seconds = (0.2, 3.0)
    """How long nothing happens before and after a strike."""

    def __init__(self, shop: Shop, chance: random.Random) -> None:
        self._shop = shop
        self._chance = chance
        self.spared: Collection[Process] = ()
        """These are stopped at times, and never killed or ended."""
        self.counts: Counter[str] = Counter(dict.fromkeys(self.kinds, 0))

    def go_on(self, seconds: float) -> None:
        """Strikes in every way, in any order, and again until the time is over."""
        over = time.monotonic() + seconds
        while True:
            for kind in self._chance.sample(self.kinds, len(self.kinds)):
                self._pause()
                self.strike(kind)
                self._pause()
                self._start_again()
            if time.monotonic() > over:
                return

    def strike(self, kind: str) -> None:
        """Does one of the kinds to some instance."""
        running = [process for process in self._shop.processes if process.is_running]
        if len(running) == 1:
            wait_until(lambda: running[0].is_ready, "the last instance is ready")
            return
        victims = running if kind == STOP else self._victims()
        if not victims:
            return
        victim = self._chance.choice(victims)
        if kind == KILL_IN_TRANSACTION:
            leader = self._shop.leader()
            if leader not in victims:
                kind = KILL
            else:
                assert leader is not None
                self._shop.die_in_transaction(leader)
        if kind == KILL:
            victim.kill()
        elif kind == STOP:
            self._stop(victim)
        elif kind == END:
            victim.terminate()
            victim.await_end()
        self.counts[kind] += 1

    def _victims(self) -> list[Process]:
        return [each for each in self._shop.processes if each.is_running and each not in self.spared]

    def _stop(self, victim: Process) -> None:
        between: Sequence[float] = self._chance.choice((_SHORT_STOP_SECONDS, _LONG_STOP_SECONDS))
        victim.freeze()
        time.sleep(self._chance.uniform(*between))
        victim.thaw()

    def _start_again(self) -> None:
        """Starts those that have ended; the next strike waits for them, or hits them while they restore."""
        ended = [process for process in self._shop.processes if not process.is_running]
        for process in ended:
            self._shop.start(process)
        if ended and self._chance.random() < 0.5:
            wait_until(lambda: all(process.is_ready for process in ended), "those that were started are ready")

    def _pause(self) -> None:
        time.sleep(self._chance.uniform(*self.pause_seconds))
