"""What happens during the soak: to instances, to brokers, and to the network between them."""

from __future__ import annotations

import random
import time
from collections.abc import Collection

from tests.chaos.cluster import BROKERS, KafkaCluster
from tests.chaos.cluster_rounds import BAD_NETWORK, KILLED, RESTARTED, TAKEN_AWAY
from tests.chaos.cluster_rounds import STOPPED as BROKER_STOPPED
from tests.chaos.network import DIRECTIONS, Trouble
from tests.histories import strikes
from tests.histories.shop import Shop
from tests.histories.strikes import Strikes
from tests.instances.processes import Process

_AWAY_SECONDS = (0.5, 15.0)
_BAD_SECONDS = (0.5, 10.0)
_LONGEST_DELAY = 0.5


class Troubles(Strikes):
    """Strikes instances, brokers and the network, one after the other."""

    kinds = (*strikes.KINDS, *TAKEN_AWAY, *BAD_NETWORK)
    pause_seconds = (1.0, 10.0)

    def __init__(
        self, shop: Shop, cluster: KafkaCluster, chance: random.Random, spared: Collection[Process] = ()
    ) -> None:
        super().__init__(shop, chance, spared)
        self._cluster = cluster

    def strike(self, kind: str) -> None:
        """Does one of the kinds to some instance, to a broker, or to the network."""
        if kind in TAKEN_AWAY:
            self._take_away(kind)
        elif kind in BAD_NETWORK:
            self._disturb(BAD_NETWORK[kind])
        else:
            super().strike(kind)
            return
        self.counts[kind] += 1

    def _take_away(self, how: str) -> None:
        cluster, broker = self._cluster, self._chance.randrange(BROKERS)
        cluster.await_whole()
        away = {KILLED: cluster.kill, BROKER_STOPPED: cluster.stop, RESTARTED: cluster.shut_down}[how]
        back = cluster.go_on if how == BROKER_STOPPED else cluster.start
        away(broker)
        try:
            time.sleep(self._chance.uniform(*_AWAY_SECONDS))
        finally:
            back(broker)
        cluster.await_whole()

    def _disturb(self, kind: str) -> None:
        chance, network = self._chance, self._cluster.network
        trouble = Trouble(kind, chance.choice(DIRECTIONS), chance.uniform(0.02, _LONGEST_DELAY), chance.random() < 0.5)
        brokers = [chance.randrange(BROKERS)] if chance.random() < 0.5 else list(range(BROKERS))
        network.disturb(trouble, brokers)
        try:
            time.sleep(chance.uniform(*_BAD_SECONDS))
        finally:
            network.heal()
