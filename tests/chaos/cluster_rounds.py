"""Rounds on three brokers: one of them is taken away, or the network between the application and the brokers is bad."""

from __future__ import annotations

import random
import signal
import time

from tests.chaos.cluster import BROKERS, KafkaCluster
from tests.chaos.network import CUT, DELAYED, DIRECTIONS, SILENT, TROUBLES, Trouble
from tests.chaos.processes import Application
from tests.chaos.rounds import UNDISTURBED, Outcome, Run, Scene, play_with

KILLED = "one-broker-killed"
STOPPED = "one-broker-stopped"
RESTARTED = "one-broker-restarted"
TAKEN_AWAY = (KILLED, STOPPED, RESTARTED)
"""What happens to one of the three brokers. It comes back before the others have taken over, or afterwards."""
BAD_NETWORK = {f"network-{trouble}": trouble for trouble in TROUBLES}
"""By kind, what becomes of all that is sent in one direction, to or from one broker or all of them."""
ANSWER_LOST = "answer-lost"
"""A transaction is ended, and the connection ends instead of the answer: the producer asks again by itself."""
ANSWERS_LOST = "answers-lost"
"""The same, until the application gives up: whether its batch is committed is known to its next producer."""
CLUSTER_KINDS = (*TAKEN_AWAY, *BAD_NETWORK, ANSWER_LOST, ANSWERS_LOST)
EVERY_TROUBLE = "every-trouble"
"""One application that meets everything in turn."""
ALL_CLUSTER_KINDS = (*CLUSTER_KINDS, EVERY_TROUBLE)

_PAUSE_SECONDS = 0.3
"""How long each phase of a batch takes at least until all has happened that is to happen: orders have to be left."""
_SOON_SECONDS = 3.0
_LONG_SECONDS = 10.0
_LONGEST_DELAY = 1.0
_DONE = {KILLED: "killed", STOPPED: "stopped", RESTARTED: "shut down"}


def play_on_cluster(scene: Scene, seed: str) -> Outcome:
    """Plays the round of a seed, `<kind>-<number>`, on a scene with three brokers."""
    return play_with(ClusterRun, _strike, scene, seed, CLUSTER_KINDS)


def _strike(run: ClusterRun, kind: str, batch: int, chance: random.Random) -> None:
    """Does to the brokers or to the network what a kind of round has in store for them."""
    if kind in TAKEN_AWAY:
        run.take_away(kind, chance.randrange(BROKERS), batch, until_taken_over=chance.random() < 0.5)
    elif kind in BAD_NETWORK:
        is_long = BAD_NETWORK[kind] != DELAYED and chance.random() < 0.5
        direction, brokers = chance.choice(DIRECTIONS), _some_brokers(chance)
        run.disturb(BAD_NETWORK[kind], direction, brokers, batch, until_given_up=is_long)
    elif kind in (ANSWER_LOST, ANSWERS_LOST):
        run.lose_answers(batch, until_given_up=kind == ANSWERS_LOST)
    elif kind == EVERY_TROUBLE:
        restarted, stopped, killed = chance.sample(range(BROKERS), BROKERS)
        run.lose_answers(1, until_given_up=False)
        run.take_away(RESTARTED, restarted, 1, until_taken_over=False)
        for trouble in chance.sample(TROUBLES, len(TROUBLES)):
            run.disturb(trouble, chance.choice(DIRECTIONS), _some_brokers(chance), 1, most_seconds=1.0)
        run.take_away(STOPPED, stopped, 1, until_taken_over=True)
        run.take_away(KILLED, killed, 1, until_taken_over=False)
        run.lose_answers(1, until_given_up=True)
    else:
        assert kind == UNDISTURBED, f"There is no kind of round {kind!r}; there are {', '.join(ALL_CLUSTER_KINDS)}"


def _some_brokers(chance: random.Random) -> list[int]:
    """One broker, or all."""
    return [chance.randrange(BROKERS)] if chance.random() < 0.5 else list(range(BROKERS))


class ClusterRun(Run):
    """One application on three brokers, which goes on by itself whatever happens to these and to the network."""

    _pause_seconds = _PAUSE_SECONDS

    @property
    def _cluster(self) -> KafkaCluster:
        assert isinstance(self._scene.kafka, KafkaCluster)
        return self._scene.kafka

    def take_away(self, how: str, broker: int, batch: int, *, until_taken_over: bool) -> None:
        """Has the application do without a broker, from some moment of a batch on, and gives the broker back."""
        cluster = self._cluster
        cluster.await_whole()
        done = self._await_moment(self._current(), batch)
        began = time.monotonic()
        if how == STOPPED:
            cluster.stop(broker)
        elif how == KILLED:
            cluster.kill(broker)
        else:
            cluster.shut_down(broker)
        try:
            if until_taken_over:
                cluster.await_without(broker)
            else:
                time.sleep(self._chance.uniform(0, _SOON_SECONDS))
        finally:
            if how == STOPPED:
                cluster.go_on(broker)
            else:
                cluster.start(broker)
        seconds = time.monotonic() - began
        when = "until the others led all it had led" if until_taken_over else "not waiting for the others"
        self._note(f"{_DONE[how]} broker {broker + 1} of {BROKERS} for {seconds:.1f} s, {when}", done)

    def disturb(
        self,
        kind: str,
        direction: str,
        brokers: list[int],
        batch: int,
        *,
        until_given_up: bool = False,
        most_seconds: float = _LONG_SECONDS,
    ) -> None:
        """Makes the network bad at some moment of a batch: for some seconds, or until the application gives up."""
        chance, network = self._chance, self._cluster.network
        trouble = Trouble(kind, direction, chance.uniform(0.05, _LONGEST_DELAY), chance.random() < 0.5)
        life = self._behind_network()
        done = self._await_moment(life, batch)
        network.disturb(trouble, brokers)
        try:
            began = network.await_hit()
            if until_given_up:
                life.await_event("interrupted", after=began)
            else:
                time.sleep(chance.uniform(0, most_seconds))
        finally:
            network.heal()
        seconds = time.monotonic() - began
        whom = "all brokers" if len(brokers) == BROKERS else f"broker {brokers[0] + 1}"
        when = "until the application had given up" if until_given_up else f"{1 + network.hits()} times"
        self._note(f"{_text(trouble)}, {whom}, for {seconds:.1f} s, {when}", done)

    def lose_answers(self, batch: int, *, until_given_up: bool) -> None:
        """Loses the answer to what ends a transaction, once, or again and again until the application gives up."""
        network = self._cluster.network
        life = self._behind_network()
        done = self._await_moment(life, batch)
        network.lose_answers(None if until_given_up else 1)
        try:
            lost = network.await_hit()
            life.await_event("interrupted" if until_given_up else "end", after=lost)
        finally:
            network.heal()
        hit = life.batch_at(lost)
        assert hit is not None, "a transaction was ended outside of a batch"
        count = f"{1 + network.hits()} times, until the application had given up" if until_given_up else "once"
        self._note(f"lost the answer to the commit of batch {hit}, {count}", done)

    def finish(self) -> None:
        """Has the application do what is left; that it ends meanwhile is wrong, as nothing has happened to it."""
        if self._lives and self._lives[-1].is_running:
            self._lives[-1].signal(signal.SIGUSR2)
        super().finish()
        self._cluster.await_whole()
        for life in self._lives[:-1]:
            self._outcome.problems.append(f"the application ended by itself with {life.exit_code}: see {life.log}")

    def _behind_network(self) -> Application:
        """The application, which reaches the brokers through the network only."""
        self._servers = self._cluster.proxied_servers
        return self._current()

    def _await_moment(self, life: Application, batch: int) -> int:
        """Waits for some moment of the batch or of a later one; how many orders are done."""
        share = self._chance.random()
        while life.await_event("begin").batch < batch:
            pass
        time.sleep(share * life.typical_batch())
        done = self._orders_done()
        assert done < self._scene.orders, "all was done before anything happened"
        return done


def _text(trouble: Trouble) -> str:
    if trouble.kind == DELAYED:
        return f"delayed what is sent {trouble.direction} by {trouble.seconds:.2f} s"
    if trouble.kind == SILENT:
        later = "and delivered it later" if trouble.arrives else "and lost it"
        return f"held up what is sent {trouble.direction} {later}"
    if trouble.kind == CUT:
        return f"cut connections in the middle of what is sent {trouble.direction}"
    return f"half-closed connections instead of sending {trouble.direction}"
