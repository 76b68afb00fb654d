"""Rounds of the kill test: an application works through the orders and is struck on the way."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec
from headrace.spark.commit import PlainCommitter
from headrace.spark.worker import host_directory
from tests.chaos.application import Settings
from tests.chaos.orders import OUTPUTS, PARTITIONS, Expected, expect, make_orders
from tests.chaos.outcome import differences, open_transactions
from tests.chaos.phases import AFTER_COMMIT, AFTER_PRODUCE, KILLED_AT, REBUILD, STOPPED_AT
from tests.chaos.processes import Application, is_alive

VICTIMS = ("driver", "jvm", "worker", "broker")
"""Whom a random moment may hit; the driver is a Python process and a JVM."""
STOPPED = "stopped-"
PHASES = (*KILLED_AT, *(f"{STOPPED}{phase}" for phase in STOPPED_AT))
UNDISTURBED = "undisturbed"
EVERY_PHASE = "every-phase"
EVERY_VICTIM = "every-victim"
"""One application that is struck by everything in turn."""
ALL_KINDS = (*VICTIMS, *PHASES, UNDISTURBED, EVERY_PHASE, EVERY_VICTIM)

_FOREVER = {"retention.ms": "-1", "message.timestamp.type": "CreateTime"}
_LONG_MS, _SHORT_MS = 60_000, 10_000
"""How long a transaction may last."""
_CHECKPOINTS = "checkpoints"
_CACHE_BYTES = 10 * 1024 * 1024
_POLL_SECONDS = 0.1
_ANSWER_SECONDS = 10.0
_PATIENCE_SECONDS = 300.0
_MOST_STARTS = 12
_SKIPPED = "Couldn't find leader endpoint for partitions"
_NAMES = {"driver": "the driver", "jvm": "the driver's JVM", "worker": "a Python worker", "broker": "the broker"}


@dataclass(frozen=True)
class Scene:
    """A broker with orders, and what is to be made of them."""

    kafka: EmbeddedKafka
    directory: Path
    source: str
    orders: int
    records_a_batch: int
    expected: Expected

    @classmethod
    def set(cls, kafka: EmbeddedKafka, directory: Path, orders: int, records_a_batch: int) -> Scene:
        """Writes the orders to a topic of their own."""
        source = f"orders-{uuid.uuid4().hex[:8]}"
        settings = ClientSettings(kafka.bootstrap_servers)
        Topics(settings).create([TopicSpec(source, PARTITIONS, _FOREVER)])
        made = make_orders(orders)
        # Idempotent: one that tries again must not change the order.
        producer = Producer(settings.producer(partitioner="murmur2_random", enable_idempotence=True))
        for order in made:
            producer.produce(source, order.value, order.key, timestamp=order.timestamp)
            producer.poll(0)
        producer.flush()
        return cls(kafka, directory, source, orders, records_a_batch, expect(made))

    @property
    def settings(self) -> ClientSettings:
        """How to reach the broker."""
        return ClientSettings(self.kafka.bootstrap_servers)

    def broker(self) -> int:
        """The broker's process, once it is there and answers."""
        while (found := self.kafka.endpoint) is None or not found.ready or not is_alive(found.broker):
            time.sleep(_POLL_SECONDS)
        assert found.broker is not None
        return found.broker


@dataclass
class Outcome:
    """What became of a round."""

    seed: str
    strikes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    is_void: bool = False
    """Whether Kafka itself lost a part of a transaction, whoever wrote it: see docs/exactly-once.md."""
    starts: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        verdict = "exact" if not self.problems else f"NOT EXACT: {'; '.join(self.problems[:3])}"
        if self.is_void:
            verdict = f"void, Kafka skipped marks of a committed transaction: {'; '.join(self.problems[:1])}"
        told = "; ".join(self.strikes) or "nothing was killed"
        return f"{self.seed}: {told}; {self.starts} starts, {self.seconds:.1f} s: {verdict}"


def play(scene: Scene, seed: str) -> Outcome:
    """Plays the round of a seed, `<kind>-<number>`."""
    began = time.monotonic()
    kind, _, _ = seed.rpartition("-")
    chance = random.Random(seed)
    outcome = Outcome(seed)
    batch = chance.randrange(1, max(2, scene.orders // scene.records_a_batch - 3))
    cached = kind in VICTIMS and chance.random() < 0.25
    with Run.on(scene, outcome, _CACHE_BYTES if cached else 0) as run:
        try:
            _strike(run, kind, batch, chance)
            run.finish()
            outcome.problems += run.differences()
            outcome.is_void = bool(outcome.problems) and run.kafka_skipped_marks()
        except AssertionError as failure:
            outcome.problems.append(str(failure))
    outcome.seconds = time.monotonic() - began
    return outcome


def _strike(run: Run, kind: str, batch: int, chance: random.Random) -> None:
    """Does to the application what a kind of round has in store for it."""
    if kind in VICTIMS:
        run.strike_at_random(kind, batch, chance)
    elif kind == REBUILD:
        run.kill_in_passing(batch)
        run.kill_at(REBUILD, batch)
    elif kind in KILLED_AT:
        run.kill_at(kind, batch)
    elif kind.startswith(STOPPED):
        run.stop_at(kind.removeprefix(STOPPED), batch)
    elif kind == EVERY_PHASE:
        for phase in KILLED_AT:
            run.kill_at(phase, 0)
        run.stop_at(AFTER_PRODUCE, 0)
    elif kind == EVERY_VICTIM:
        for number, victim in enumerate(chance.sample(("driver", "worker", "broker"), 3)):
            run.strike_at_random(victim, 1 + 3 * number, chance)
    else:
        assert kind == UNDISTURBED, f"There is no kind of round {kind!r}; there are {', '.join(ALL_KINDS)}"


class Run:
    """One application on its way through the orders, in one process after the other."""

    def __init__(self, scene: Scene, outcome: Outcome, cache_max_bytes: int) -> None:
        self._scene = scene
        self._outcome = outcome
        self._id = f"chaos-{uuid.uuid4().hex[:8]}"
        self._directory = scene.directory / self._id
        self._directory.mkdir(parents=True)
        self._cache_max_bytes = cache_max_bytes
        self._places = [TopicPartition(scene.source, partition) for partition in range(PARTITIONS)]
        # With read_committed it would wait for the end of an open transaction.
        ours = {"group.id": self._id, "isolation.level": "read_uncommitted", "enable.auto.commit": False}
        self._group = Consumer({"log_level": 0, **scene.settings.consumer(**ours)})
        self._outputs = [f"{self._id}.{name}" for name in OUTPUTS]
        Topics(scene.settings).create([TopicSpec(name, PARTITIONS, _FOREVER) for name in self._outputs])
        self._lives: list[Application] = []
        self._machine = "machine-1"

    @classmethod
    @contextmanager
    def on(cls, scene: Scene, outcome: Outcome, cache_max_bytes: int = 0) -> Iterator[Run]:
        """A run whose processes are gone in the end, and its files too if all went well."""
        run = cls(scene, outcome, cache_max_bytes)
        try:
            yield run
        finally:
            for life in run._lives:
                life.kill()
            run._group.close()
        if not outcome.problems:
            shutil.rmtree(run._directory, ignore_errors=True)

    # --- strikes -----------------------------------------------------------------------------------------------

    def strike_at_random(self, victim: str, batch: int, chance: random.Random) -> None:
        """Kills the victim at some moment of the batch, or of a later one, that is under way."""
        share = chance.random()
        life = self._current()
        while True:
            while life.await_event("begin").batch < batch:
                pass
            time.sleep(share * life.typical_batch())
            done = self._orders_done()
            assert done < self._scene.orders, f"all was done before {_NAMES[victim]} was killed"
            struck = self._kill(victim, life, chance)
            self._scene.broker()
            life.await_after(struck)
            hit = life.batch_at(struck)
            if hit is not None:
                delay = struck - max(e.time for e in life.events if e.name == "begin" and e.time < struck)
                self._note(f"killed {_NAMES[victim]} {delay:.2f} s into batch {hit}", done)
                return
            self._outcome.strikes.append(f"killed {_NAMES[victim]} between two batches, which does not count")
            life = self._current()

    def kill_at(self, phase: str, batch: int) -> None:
        """Has the driver killed in a phase of a batch."""
        if phase == REBUILD:
            self._remove_copies()
        life = self._start(phase, batch)
        strike = life.await_event("strike")
        assert life.await_end() == -signal.SIGKILL
        self._note(f"killed the driver at {phase} of batch {strike.batch}", self._orders_done())

    def kill_in_passing(self, batch: int) -> None:
        """Kills the driver in or after a batch, to have something that is to be gone on with."""
        life = self._start()
        while life.await_event("end").batch < batch:
            pass
        os.kill(life.pid, signal.SIGKILL)
        life.await_end()

    def stop_at(self, phase: str, batch: int) -> None:
        """Stops the driver for longer than a transaction may last, and wakes it up when another has taken over.

        The other runs on another machine, as far as it can tell: on this one the stopped driver keeps its place.
        """
        zombie = self._start(phase, batch, signal.SIGSTOP, _SHORT_MS)
        strike = zombie.await_event("strike")
        self._note(f"stopped the driver at {phase} of batch {strike.batch}", self._orders_done())
        if phase == AFTER_PRODUCE:
            assert open_transactions(self._scene.settings, self._outputs), "there should be an open transaction"
            while open_transactions(self._scene.settings, self._outputs):
                time.sleep(_POLL_SECONDS)
        self._machine = "machine-2"
        successor = self._start()
        successor.await_event("end")
        while successor.await_event("end") and time.monotonic() < strike.time + _SHORT_MS / 1000:
            pass
        zombie.signal(signal.SIGCONT)
        asleep = time.monotonic() - strike.time
        code = zombie.await_end()
        self._outcome.strikes.append(f"woken after {asleep:.1f} s it ended with {code}")
        if code <= 0 or (phase != AFTER_COMMIT and "has taken over" not in self._log(-2).read_text()):
            self._outcome.problems.append(f"the stopped driver did not find itself fenced: {self._log(-2)}")

    def _kill(self, victim: str, life: Application, chance: random.Random) -> float:
        """Kills the victim; answers when."""
        if victim == "driver":
            pid = life.pid
        elif victim == "jvm":
            pid = life.jvm
        elif victim == "worker":
            pid = chance.choice(life.workers())
        else:
            pid = self._scene.broker()
        struck = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        return struck

    # --- the application ---------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Has the application do what is left, starting it again as often as it ends."""
        life = self._current()
        done, since = -1, time.monotonic()
        # Kafka is asked, as it shows a commit a moment after the application has told of it.
        while (now_done := self._orders_done()) < self._scene.orders:
            if now_done != done:
                done, since = now_done, time.monotonic()
            assert time.monotonic() < since + _PATIENCE_SECONDS, f"nothing more is done: see {self._log(-1)}"
            if not life.is_running:
                life = self._start()
            time.sleep(_POLL_SECONDS)

    def differences(self) -> list[str]:
        """What is not as in an undisturbed run."""
        committer = PlainCommitter(self._scene.settings, self._id)
        committed = committer.committed()
        committer.close()
        scene, every_update = self._scene, self._cache_max_bytes == 0
        return differences(
            scene.settings, self._id, self._directory / _CHECKPOINTS, committed, scene.expected, every_update
        )

    def kafka_skipped_marks(self) -> bool:
        """Whether the broker, killed while it ended a transaction, left it without an end in some partitions.

        It does so when it is up again and looks for the partitions before they have a leader.
        """
        lines = self._scene.kafka.log_file.read_text(errors="replace").splitlines()
        return any(_SKIPPED in line and self._id in line for line in lines)

    def _start(
        self, phase: str | None = None, batch: int = 0, sign: int = signal.SIGKILL, transaction_ms: int = _LONG_MS
    ) -> Application:
        assert len(self._lives) < _MOST_STARTS, f"the application ends again and again: see {self._log(-1)}"
        self._outcome.starts += 1
        settings = Settings(
            self._id,
            self._scene.kafka.bootstrap_servers,
            str(self._directory / self._machine),
            str(self._directory / _CHECKPOINTS),
            self._scene.source,
            self._scene.records_a_batch,
            self._cache_max_bytes,
            transaction_ms,
            phase,
            batch,
            sign,
        )
        self._lives.append(Application(settings, self._directory / f"life-{len(self._lives)}.log"))
        return self._lives[-1]

    def _current(self) -> Application:
        """The application as it runs, started if it has ended."""
        return self._lives[-1] if self._lives and self._lives[-1].is_running else self._start()

    def _log(self, life: int) -> Path:
        return self._directory / f"life-{range(len(self._lives))[life]}.log"

    def _orders_done(self) -> int:
        """How many orders are committed."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                places = self._group.committed(self._places, timeout=_ANSWER_SECONDS)
                return sum(max(0, place.offset) for place in places)
            except KafkaException:  # a broker that was killed needs a moment
                if time.monotonic() > deadline:
                    raise

    def _note(self, what: str, done: int) -> None:
        assert done < self._scene.orders, f"{what}, when all was done"
        self._outcome.strikes.append(f"{what}, {done:,} of {self._scene.orders:,} orders done")

    def _remove_copies(self) -> None:
        """Has the state rebuilt at the next start, as on another machine."""
        self._lives[-1].await_jvm_end()
        shutil.rmtree(host_directory(str(self._directory / self._machine), self._id))
