"""Rounds of the kill test: an application works through the orders and is struck on the way."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec
from headrace.spark.commit_record import last_commit
from headrace.spark.worker import host_directory
from tests.chaos.application import Settings
from tests.chaos.cluster import BROKERS, KafkaCluster
from tests.chaos.orders import OUTPUTS, PARTITIONS, Expected, expect, make_orders, topology
from tests.chaos.outcome import differences, open_transactions
from tests.chaos.phases import AFTER_COMMIT, AFTER_PRODUCE, KILLED_AT, REBUILD, STOPPED_AT
from tests.chaos.power import lose_power
from tests.chaos.processes import Application, await_unused, is_alive

FIRST_WORKER = "first-worker"
ON_SPARK = ("jvm", "worker")
"""Victims that there are when Spark runs the batches."""
VICTIMS = ("driver", *ON_SPARK, FIRST_WORKER, "broker")
"""Whom a random moment may hit; the driver is a Python process and a JVM."""
STOPPED = "stopped-"
STOPPED_AFTER = {f"{STOPPED}after-begin": 0, f"{STOPPED}after-first-commit": 1}
"""By kind, the batch after whose commit a driver is stopped; an application's beginning is batch 0."""
COPIES_LOST = "copies-lost"
"""The working copies are gone when the application is started again."""
COPIES_OLD = "copies-old"
"""The working copies of an earlier commit are back, with entries that were deleted since."""
TWO_DRIVERS = "two-drivers"
"""Two processes are started at the same moment, at the beginning and again on the way."""
POWER_LOST = "power-lost"
"""The machine goes down, and of what was not synced some pages are lost."""
CLOCK_JUMPS = "clock-jumps"
"""The clock of the machine is set by hours, back and forth."""
LOSSES = (*STOPPED_AFTER, COPIES_LOST, COPIES_OLD, POWER_LOST, TWO_DRIVERS, CLOCK_JUMPS)
PHASES = (*KILLED_AT, *(f"{STOPPED}{phase}" for phase in STOPPED_AT), *LOSSES)
UNDISTURBED = "undisturbed"
EVERY_PHASE = "every-phase"
EVERY_LOSS = "every-loss"
EVERY_VICTIM = "every-victim"
"""One application that is struck by everything in turn."""
ALL_KINDS = (*VICTIMS, *PHASES, UNDISTURBED, EVERY_PHASE, EVERY_LOSS, EVERY_VICTIM)

_FOREVER = {"retention.ms": "-1", "message.timestamp.type": "CreateTime"}
_LONG_MS, _SHORT_MS = 60_000, 10_000
"""How long a transaction may last."""
_PAUSE_SECONDS = 0.06
"""How long each phase of a batch takes at least: batches are so short that a random strike would miss them."""
_LONG_PAUSE_SECONDS = 0.8
"""The same of two drivers: orders have to be left when one of them has ended, which takes as long as Spark's start."""
_CACHE_BYTES = 10 * 1024 * 1024
_POLL_SECONDS = 0.1
_ANSWER_SECONDS = 10.0
_PATIENCE_SECONDS = 300.0
_MOST_STARTS = 16
_SKIPPED = "Couldn't find leader endpoint for partitions"
_NAMES = {
    "driver": "the driver",
    "jvm": "the driver's JVM",
    "worker": "a Python worker",
    FIRST_WORKER: "the first worker",
    "broker": "the broker",
}


AnyRun = TypeVar("AnyRun", bound="Run")


@dataclass(frozen=True)
class Scene:
    """One broker or three with orders, and what is to be made of them."""

    kafka: EmbeddedKafka | KafkaCluster
    directory: Path
    source: str
    orders: int
    records_a_batch: int
    expected: Expected

    @classmethod
    def set(cls, kafka: EmbeddedKafka | KafkaCluster, directory: Path, orders: int, records_a_batch: int) -> Scene:
        """Writes the orders to a topic of their own."""
        source = f"orders-{uuid.uuid4().hex[:8]}"
        settings = ClientSettings(kafka.bootstrap_servers)
        Topics(settings).create([TopicSpec(source, PARTITIONS, _FOREVER, _replicas(kafka))])
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
        """How to reach the brokers."""
        return ClientSettings(self.kafka.bootstrap_servers)

    @property
    def replication_factor(self) -> int:
        """How many brokers have each record."""
        return _replicas(self.kafka)

    def broker(self) -> int:
        """The process of the only broker, once it is there and answers."""
        assert isinstance(self.kafka, EmbeddedKafka)
        while (found := self.kafka.endpoint) is None or not found.ready or not is_alive(found.broker):
            time.sleep(_POLL_SECONDS)
        assert found.broker is not None
        return found.broker


def _replicas(kafka: EmbeddedKafka | KafkaCluster) -> int:
    return BROKERS if isinstance(kafka, KafkaCluster) else 1


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
    return play_with(Run, _strike, scene, seed, VICTIMS)


def play_with(
    kind_of_run: type[AnyRun],
    strike: Callable[[AnyRun, str, int, random.Random], None],
    scene: Scene,
    seed: str,
    sometimes_cached: Collection[str],
) -> Outcome:
    """Plays the round of a seed; `strike` does to the run what the seed's kind, a batch and chance say."""
    began = time.monotonic()
    kind, _, _ = seed.rpartition("-")
    chance = random.Random(seed)
    outcome = Outcome(seed)
    batch = chance.randrange(1, max(2, scene.orders // scene.records_a_batch - 3))
    cached = kind in sometimes_cached and chance.random() < 0.25
    with kind_of_run.on(scene, outcome, chance, _CACHE_BYTES if cached else 0) as run:
        try:
            strike(run, kind, batch, chance)
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
        # The first worker is gone as soon as Spark is there.
        run.strike_at_random(kind, 1 if kind == FIRST_WORKER else batch, chance)
    elif kind == REBUILD:
        run.kill_in_passing(batch)
        run.kill_at(REBUILD, batch)
    elif kind in KILLED_AT:
        run.kill_at(kind, batch)
    elif kind in STOPPED_AFTER:
        run.stop_at(AFTER_COMMIT, STOPPED_AFTER[kind], moved=chance.random() < 0.5)
    elif kind.startswith(STOPPED):
        run.stop_at(kind.removeprefix(STOPPED), batch, moved=chance.random() < 0.5)
    elif kind == COPIES_LOST:
        run.lose_copies(batch)
    elif kind == COPIES_OLD:
        run.bring_back_copies(batch)
    elif kind == POWER_LOST:
        run.lose_power(batch)
    elif kind == CLOCK_JUMPS:
        run.set_clocks(batch)
    elif kind == TWO_DRIVERS:
        run.start_two(moved=chance.random() < 0.5)
        run.kill_in_passing(batch)
        run.start_two(moved=chance.random() < 0.5)
    elif kind == EVERY_PHASE:
        for phase in KILLED_AT[:-1]:
            run.kill_at(phase, 0)
        run.kill_in_passing(1)
        run.kill_at(REBUILD, 0)
        run.stop_at(AFTER_PRODUCE, 0)
    elif kind == EVERY_LOSS:
        run.start_two()
        run.lose_copies(1)
        run.bring_back_copies(1)
        run.lose_power(1)
        run.set_clocks(1)
    elif kind == EVERY_VICTIM:
        for number, victim in enumerate(chance.sample(("driver", "worker", "broker"), 3)):
            run.strike_at_random(victim, 1 + 3 * number, chance)
    else:
        assert kind == UNDISTURBED, f"There is no kind of round {kind!r}; there are {', '.join(ALL_KINDS)}"


class Run:
    """One application on its way through the orders, in one process after the other."""

    _pause_seconds = _PAUSE_SECONDS

    def __init__(self, scene: Scene, outcome: Outcome, chance: random.Random, cache_max_bytes: int) -> None:
        self._scene = scene
        self._outcome = outcome
        self._chance = chance
        self._waits_for_spark: bool | None = None
        """Whether no batch runs before Spark has started; None where each process does as chance has it."""
        self._id = f"chaos-{uuid.uuid4().hex[:8]}"
        self._directory = scene.directory / self._id
        self._directory.mkdir(parents=True)
        self._cache_max_bytes = cache_max_bytes
        self._places = [TopicPartition(scene.source, partition) for partition in range(PARTITIONS)]
        # With read_committed it would wait for the end of an open transaction.
        ours = {"group.id": self._id, "isolation.level": "read_uncommitted", "enable.auto.commit": False}
        self._group = Consumer({"log_level": 0, **scene.settings.consumer(**ours)})
        self._outputs = [f"{self._id}.{name}" for name in OUTPUTS]
        specs = [TopicSpec(name, PARTITIONS, _FOREVER, scene.replication_factor) for name in self._outputs]
        Topics(scene.settings).create(specs)
        self._servers = scene.kafka.bootstrap_servers
        """What the application is told of."""
        self._lives: list[Application] = []
        self._machine = "machine-1"
        self._clock_jumps = False
        self._shared = False
        """Whether two processes have used the same working copies at the same time."""

    @classmethod
    @contextmanager
    def on(
        cls: type[AnyRun], scene: Scene, outcome: Outcome, chance: random.Random, cache_max_bytes: int = 0
    ) -> Iterator[AnyRun]:
        """A run whose processes are gone in the end, and its files too if all went well."""
        run = cls(scene, outcome, chance, cache_max_bytes)
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
        if victim in (*ON_SPARK, FIRST_WORKER):
            self._waits_for_spark = victim in ON_SPARK
            self._end_all()
        life = self._current()
        while True:
            if victim in ON_SPARK:
                life.await_spark()
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
            if victim == FIRST_WORKER:
                self._end_all()
            life = self._current()

    def kill_at(self, phase: str, batch: int) -> None:
        """Has the driver killed in a phase of a batch."""
        self._end_all()
        if phase == REBUILD:
            shutil.rmtree(self._copies)
        life = self._start(phase, batch)
        strike = life.await_event("strike")
        assert life.await_end() == -signal.SIGKILL
        self._note(f"killed the driver at {phase} of batch {strike.batch}", self._orders_done())

    def kill_in_passing(self, batch: int) -> None:
        """Kills the driver in or after a batch, to have something that is to be gone on with."""
        life = self._current()
        while life.await_event("end").batch < batch:
            pass
        os.kill(life.pid, signal.SIGKILL)
        life.await_end()

    def stop_at(self, phase: str, batch: int, *, moved: bool = True) -> None:
        """Stops the driver for longer than a transaction may last, and wakes it up when another has taken over.

        The other runs on another machine if it has `moved`, else it goes on with the same working copies.
        """
        self._end_all()
        zombie = self._start(phase, batch, signal.SIGSTOP, _SHORT_MS)
        strike = zombie.await_event("strike")
        self._note(f"stopped the driver at {phase} of batch {strike.batch}", self._orders_done())
        if phase == AFTER_PRODUCE:
            assert open_transactions(self._scene.settings, self._outputs), "there should be an open transaction"
            while open_transactions(self._scene.settings, self._outputs):
                time.sleep(_POLL_SECONDS)
        self._move_if(moved)
        successor = self._start()
        successor.await_event("end")
        while time.monotonic() < strike.time + _SHORT_MS / 1000:
            time.sleep(_POLL_SECONDS)
        zombie.signal(signal.SIGCONT)
        asleep = time.monotonic() - strike.time
        self._await_fenced(zombie, f"woken after {asleep:.1f} s {'elsewhere' if moved else 'beside the other'} it")

    def lose_copies(self, batch: int) -> None:
        """Has the application go on without its working copies."""
        self.kill_in_passing(batch)
        self._end_all()
        shutil.rmtree(self._copies)
        self._see_rebuilt("removed the working copies")

    def lose_power(self, batch: int) -> None:
        """Has the application go on after another boot of its machine, with working copies that are torn."""
        self.kill_in_passing(batch)
        self._end_all()
        [earlier] = lose_power(self._copies.parent, self._chance)
        self._see_rebuilt("lost power, and pages of the working copies with it")
        assert not earlier.exists(), "working copies of an earlier boot are still there"

    def set_clocks(self, batch: int) -> None:
        """Has the application run on while its clock is set by hours, and be killed on the way."""
        self._end_all()
        self._clock_jumps = True
        self.kill_in_passing(self._committed_batch() + 1 if self._outcome.starts else batch)
        self._note("set the clock by up to 26 hours each second", self._orders_done())

    def bring_back_copies(self, batch: int) -> None:
        """Has the application go on with the working copies of an earlier commit."""
        self.kill_in_passing(batch)
        self._end_all()
        earlier = self._directory / "earlier"
        shutil.copytree(self._copies, earlier)
        gone = self._committed_batch()
        self.kill_in_passing(gone + 2)
        self._end_all()
        shutil.rmtree(self._copies)
        earlier.rename(self._copies)
        self._see_rebuilt(f"brought back the working copies of batch {gone} after batch {self._committed_batch()}")

    def start_two(self, *, moved: bool = True) -> None:
        """Starts two drivers at the same moment; one of them has to end, the other goes on."""
        self._end_all()
        machine = self._machine
        first = self._start(pause_seconds=_LONG_PAUSE_SECONDS)
        self._move_if(moved)
        both = {first: machine, self._start(pause_seconds=_LONG_PAUSE_SECONDS): self._machine}
        done = self._orders_done()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not (ended := [life for life in both if not life.is_running]):
            time.sleep(_POLL_SECONDS)
            assert time.monotonic() < deadline, "two drivers have gone on side by side"
        assert len(ended) == 1, f"both drivers have ended: see {self._log(-2)} and {self._log(-1)}"
        where = "on two machines" if moved else "on one machine"
        self._note(f"started two drivers at once {where}", done)
        self._await_fenced(ended[0], "one of them")
        # The one that goes on is the current one.
        [left] = [life for life in both if life is not ended[0]]
        self._machine = both[left]
        self._lives.append(self._lives.pop(self._lives.index(left)))

    def _await_fenced(self, life: Application, who: str) -> None:
        """Waits until a driver has found out that another one has taken over."""
        code = life.await_end()
        self._outcome.strikes.append(f"{who} ended with {code}")
        if code <= 0 or "has taken over" not in life.log.read_text():
            self._outcome.problems.append(f"a driver did not find itself fenced: {life.log}")

    def _see_rebuilt(self, what: str) -> None:
        """Starts the application and sees that it does not use the working copies that it finds."""
        done = self._orders_done()
        assert done < self._scene.orders, f"{what}, when all was done"
        self._start().await_event("rebuilt")
        self._note(what, done)

    def _kill(self, victim: str, life: Application, chance: random.Random) -> float:
        """Kills the victim; answers when."""
        if victim == "driver":
            pid = life.pid
        elif victim == "jvm":
            pid = life.jvm
        elif victim == "worker":
            pid = chance.choice(life.workers())
        elif victim == FIRST_WORKER:
            found = life.first_worker()
            assert found is not None, "the first worker was gone before it was killed"
            pid = found
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
        self._end_all()
        scene, every_update = self._scene, self._cache_max_bytes == 0
        plan = topology(scene.source, self._id)
        kept = not self._shared
        return differences(scene.settings, self._id, plan, self._copies, kept, scene.expected, every_update)

    def kafka_skipped_marks(self) -> bool:
        """Whether the broker, killed while it ended a transaction, left it without an end in some partitions.

        It does so when it is up again and looks for the partitions before they have a leader.
        """
        if isinstance(self._scene.kafka, KafkaCluster):
            return False  # others lead the partitions meanwhile
        lines = self._scene.kafka.log_file.read_text(errors="replace").splitlines()
        return any(_SKIPPED in line and self._id in line for line in lines)

    def _start(
        self,
        phase: str | None = None,
        batch: int = 0,
        sign: int = signal.SIGKILL,
        transaction_ms: int = _LONG_MS,
        pause_seconds: float | None = None,
    ) -> Application:
        assert len(self._lives) < _MOST_STARTS, f"the application ends again and again: see {self._log(-1)}"
        self._outcome.starts += 1
        settings = Settings(
            self._id,
            self._servers,
            str(self._directory / self._machine),
            self._scene.source,
            self._scene.records_a_batch,
            self._cache_max_bytes,
            transaction_ms,
            self._scene.replication_factor,
            phase,
            batch,
            sign,
            self._chance.random() < 0.5 if self._waits_for_spark is None else self._waits_for_spark,
            self._pause_seconds if pause_seconds is None else pause_seconds,
            self._clock_jumps,
        )
        self._lives.append(Application(settings, self._directory / f"life-{self._outcome.starts}.log"))
        return self._lives[-1]

    def _current(self) -> Application:
        """The application as it runs, started if it has ended."""
        return self._lives[-1] if self._lives and self._lives[-1].is_running else self._start()

    def _log(self, life: int) -> Path:
        return self._lives[life].log

    @property
    def _copies(self) -> Path:
        """The working copies of the machine that the application runs on."""
        return Path(host_directory(str(self._directory / self._machine), self._id))

    def _move_if(self, moved: bool) -> None:
        """Has the next process run on another machine, as far as it can tell, or beside the one that runs."""
        if moved:
            self._machine = f"machine-{self._outcome.starts + 1}"
        else:
            self._shared = True

    def _committed_batch(self) -> int:
        record = last_commit(self._scene.settings, self._id)
        assert record is not None
        return record.batch

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

    def _end_all(self) -> None:
        """Ends what runs of the application, its JVM and its workers too."""
        for life in self._lives:
            life.kill()
            life.await_jvm_end()
        await_unused(self._directory)  # workers may outlive their JVM for a moment
