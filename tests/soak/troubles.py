"""What happens during the soak: to instances, their disks and clocks, to brokers, and to the network between them."""

from __future__ import annotations

import random
import time

from tests.chaos.cluster import BROKERS, KafkaCluster
from tests.chaos.cluster_rounds import ANSWER_LOST, ANSWERS_LOST, BAD_NETWORK, KILLED, RESTARTED, TAKEN_AWAY
from tests.chaos.cluster_rounds import STOPPED as BROKER_STOPPED
from tests.chaos.network import DIRECTIONS, Trouble
from tests.chaos.power import lose_power
from tests.chaos.rounds import CLOCK_JUMPS, POWER_LOST
from tests.histories import strikes
from tests.histories.shop import Shop
from tests.histories.strikes import Strikes
from tests.soak.strangers import Liar, forged_member, slow_clients

SLOW_CLIENTS = "slow-clients"
"""Clients hold connections to an instance."""
FORGED_MEMBER = "forged-member"
"""A stranger takes part as if it were an instance, at an address of its own or at that of another instance."""

_AWAY_SECONDS = (0.5, 15.0)
_BAD_SECONDS = (0.5, 10.0)
_WRONG_CLOCK_SECONDS = (15.0, 30.0)
_FORGED_SECONDS = (5.0, 15.0)
_LONGEST_DELAY = 0.5


class Troubles(Strikes):
    """Strikes instances, brokers and the network, one after the other."""

    kinds = (
        *strikes.KINDS,
        POWER_LOST,
        CLOCK_JUMPS,
        *TAKEN_AWAY,
        *BAD_NETWORK,
        ANSWER_LOST,
        ANSWERS_LOST,
        SLOW_CLIENTS,
        FORGED_MEMBER,
    )
    pause_seconds = (1.0, 10.0)

    def __init__(self, shop: Shop, cluster: KafkaCluster, chance: random.Random) -> None:
        super().__init__(shop, chance)
        self._cluster = cluster
        self.believed = 0
        """How many requests that were for a stranger's address an instance has answered."""

    def strike(self, kind: str) -> None:
        """Does one of the kinds to some instance, to a broker, or to the network."""
        if kind in TAKEN_AWAY:
            self._take_away(kind)
        elif kind in BAD_NETWORK:
            self._disturb(BAD_NETWORK[kind])
        elif kind in (ANSWER_LOST, ANSWERS_LOST):
            self._lose_answers(1 if kind == ANSWER_LOST else None)
        elif kind == SLOW_CLIENTS:
            with slow_clients(self._chance.choice(self._shop.addresses)):
                self._wait(_BAD_SECONDS)
        elif kind == FORGED_MEMBER:
            self._forge()
        elif kind not in (POWER_LOST, CLOCK_JUMPS):
            super().strike(kind)
            return
        elif not self._strike_machine(kind):
            return
        self.counts[kind] += 1

    def _take_away(self, how: str) -> None:
        cluster, broker = self._cluster, self._chance.randrange(BROKERS)
        cluster.await_whole()
        away = {KILLED: cluster.kill, BROKER_STOPPED: cluster.stop, RESTARTED: cluster.shut_down}[how]
        back = cluster.go_on if how == BROKER_STOPPED else cluster.start
        away(broker)
        try:
            self._wait(_AWAY_SECONDS)
        finally:
            back(broker)
        cluster.await_whole()

    def _disturb(self, kind: str) -> None:
        chance, network = self._chance, self._cluster.network
        trouble = Trouble(kind, chance.choice(DIRECTIONS), chance.uniform(0.02, _LONGEST_DELAY), chance.random() < 0.5)
        brokers = [chance.randrange(BROKERS)] if chance.random() < 0.5 else list(range(BROKERS))
        network.disturb(trouble, brokers)
        try:
            self._wait(_BAD_SECONDS)
        finally:
            network.heal()

    def _lose_answers(self, most: int | None) -> None:
        network = self._cluster.network
        network.lose_answers(most)
        try:
            network.await_hit()
            self._wait(_BAD_SECONDS)
        finally:
            network.heal()

    def _strike_machine(self, kind: str) -> bool:
        """Takes away an instance's power or sets its clock; False where there is none that may be struck."""
        victims = self._victims()
        if not victims:
            return False
        victim = self._chance.choice(victims)
        victim.lose_power()
        if kind == POWER_LOST:
            lose_power(self._shop.state_of(victim), self._chance)
        else:
            self._shop.start(victim, clock_jumps=True)
            self._wait(_WRONG_CLOCK_SECONDS)
            victim.lose_power()
        return True

    def _forge(self) -> None:
        some, other = self._chance.sample(self._shop.addresses, 2)
        with Liar(some) as liar:
            address = self._chance.choice((liar.address, other))
            with forged_member(self._shop.settings, address):
                self._wait(_FORGED_SECONDS)
            self.believed += liar.believed

    def _wait(self, seconds: tuple[float, float]) -> None:
        time.sleep(self._chance.uniform(*seconds))
