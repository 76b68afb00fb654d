"""The service: how fast instances answer, restore, and see what is new.

Instances are processes of `headrace serve`. The changelogs they read are written here, in transactions, as the engine
would write them: nothing depends on how fast a pipeline is.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer

from benchmarks import served
from benchmarks.asking import Question, ask
from benchmarks.display import Advance
from benchmarks.orders import PARTITIONS, SEED
from benchmarks.processes import kill_tree
from benchmarks.stand import ROOT, Stand
from headrace import StreamsConfig, Topology
from headrace.kafka.clients import ClientSettings
from headrace.kafka.internal_topics import prepare_topics
from headrace.serdes.hashing import partition_for_key

CONNECTIONS = 16
READ_KEYS = 100_000
RESTORED_KEYS = 1_000_000
READS = 30_000
READ_ROUNDS = 3
FORWARDED_READS = 500
FORWARDED_ROUNDS = 6
CHANGES = 60

_WARM_UP = 3_000
_TRANSACTION_RECORDS = 50_000
_READY_SECONDS = 120.0
_LOOK_SECONDS = 0.05
_VISIBLE_LOOK_SECONDS = 0.002
_VISIBLE_SECONDS = 30.0
_PAUSE_SECONDS = 0.5
"""Between two changes at most; they are not to keep time with what an instance does by the clock."""
_ANSWERS_AT = re.compile(r"Answers at http://(\S+),")
_LOG_LINES = 20


@dataclass(frozen=True)
class Figure:
    """Something that was measured, and what it is to be."""

    name: str
    value: float
    unit: str
    target: float
    is_limit: bool
    """Whether it is to be the target at most, not at least."""

    @property
    def is_met(self) -> bool:
        """Whether it is as it is to be."""
        return self.value <= self.target if self.is_limit else self.value >= self.target


def measure(stand: Stand) -> list[Figure]:
    """All figures of the service."""
    return [*_reads(stand), _restore(stand)]


# --- what is measured ----------------------------------------------------------------------------------------------


def _reads(stand: Stand) -> list[Figure]:
    changelog = Changelog(stand, "service-reads", served.reads, PARTITIONS)
    keys = [b"store-%07d" % number for number in range(READ_KEYS)]
    with stand.display.task(f"Writing a changelog of {READ_KEYS:,} keys"):
        changelog.write((key, _total(1)) for key in keys)
    with Instance(stand, "service-reads", "reads", core=_cores()[0]) as one:
        with stand.display.task("Waiting for an instance"):
            one.await_owned(range(PARTITIONS))
        with stand.display.task(f"{READS:,} reads over {CONNECTIONS} connections", READ_ROUNDS) as advance:
            rates, p99s = _local_reads(one, keys, advance)
        with stand.display.task(f"{CHANGES} changes", CHANGES) as advance:
            visible = _visible(changelog, one, keys, advance)
        one.release()
        with Instance(stand, "service-reads", "reads") as other:
            with stand.display.task("Waiting for a second instance"):
                owned = other.await_share()
                one.await_owned(sorted(set(range(PARTITIONS)) - set(owned)))
            with stand.display.task("Forwarded reads", FORWARDED_ROUNDS) as advance:
                added = _forwarded(one, other, owned, keys, advance)
    return [
        Figure("local reads, one core", statistics.median(rates), "reads/s", 3_000, is_limit=False),
        Figure("local reads, p99", statistics.median(p99s), "ms", 20, is_limit=True),
        Figure("forwarded read, added at the median", added, "ms", 5, is_limit=True),
        Figure("change visible after, median", visible, "ms", 300, is_limit=True),
    ]


def _local_reads(instance: Instance, keys: Sequence[bytes], advance: Advance) -> tuple[list[float], list[float]]:
    """Answers a second and the 99th percentile in milliseconds, by round. Who asks is on the other core."""
    chance = random.Random(SEED)
    every_core = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {_cores()[1]})
    try:
        ask(instance.address, _questions(chance.choices(keys, k=_WARM_UP)), CONNECTIONS)
        rounds = []
        for number in range(READ_ROUNDS):
            rounds.append(ask(instance.address, _questions(chance.choices(keys, k=READS)), CONNECTIONS))
            advance(number + 1)
    finally:
        os.sched_setaffinity(0, every_core)
    return [each.rate for each in rounds], [each.p99_ms for each in rounds]


def _forwarded(one: Instance, other: Instance, owned: Sequence[int], keys: Sequence[bytes], advance: Advance) -> float:
    """What it takes longer, at the median, to ask for keys of the second instance at the first one."""
    chance = random.Random(SEED)
    there = [key for key in keys if partition_for_key(key, PARTITIONS) in owned]
    forwarded: list[float] = []
    local: list[float] = []
    for number in range(FORWARDED_ROUNDS + 1):
        questions = _questions(chance.choices(there, k=FORWARDED_READS))
        for instance, latencies in ((one, forwarded), (other, local)):
            answered = ask(instance.address, questions, 1)
            if number:  # the first one warms up
                latencies += answered.latencies
        advance(number)
    return (statistics.median(forwarded) - statistics.median(local)) * 1000


def _visible(changelog: Changelog, instance: Instance, keys: Sequence[bytes], advance: Advance) -> float:
    """Milliseconds from the moment before a commit to the answer that has the change, at the median."""
    chance = random.Random(SEED)
    taken = []
    for number in range(CHANGES):
        time.sleep(chance.random() * _PAUSE_SECONDS)
        key, count = chance.choice(keys), 2 + number
        committing = changelog.commit([(key, _total(count))])
        deadline = committing + _VISIBLE_SECONDS
        while instance.get(_path(key))["value"]["count"] != count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"A change was not visible within {_VISIBLE_SECONDS:.0f} seconds.")
            time.sleep(_VISIBLE_LOOK_SECONDS)
        taken.append(time.monotonic() - committing)
        advance(number + 1)
    return statistics.median(taken) * 1000


def _restore(stand: Stand) -> Figure:
    changelog = Changelog(stand, "service-restore", served.restore, 1)
    numbers = list(range(RESTORED_KEYS))
    random.Random(SEED).shuffle(numbers)
    with stand.display.task(f"Writing a partition of {RESTORED_KEYS:,} records"):
        changelog.write((b"store-%07d" % number, _total(number)) for number in numbers)
    with (
        stand.display.task("Restoring it", RESTORED_KEYS) as advance,
        Instance(stand, "service-restore", "restore") as instance,
    ):
        begun, first = time.monotonic(), 0
        while (ready := instance.ready())["status"] != "ready":
            left = next((each["records_left"] for each in ready.get("restoring", ())), None)
            if left is not None:
                if not first:
                    begun, first = time.monotonic(), left
                advance(RESTORED_KEYS - left)
            instance.check(begun + _READY_SECONDS)
        seconds = time.monotonic() - begun
    if first < RESTORED_KEYS / 2:
        raise RuntimeError(f"Only the last {first:,} records of the restore were seen.")
    return Figure("restore of a partition", first / seconds, "records/s", 100_000, is_limit=False)


def _questions(keys: Iterable[bytes]) -> list[Question]:
    return [Question(_path(key), b'"key":"%s","value":{"count":' % key) for key in keys]


def _path(key: bytes) -> str:
    return f"/v1/stores/{served.STORE}/keys/{key.decode()}"


def _total(count: int) -> bytes:
    return b'{"count":%d,"revenue":%d.25}' % (count, count)


def _cores() -> tuple[int, int]:
    """The core of an instance, and that of who asks it; the same one where there is no other."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[-1]


# --- what it is measured on ----------------------------------------------------------------------------------------


class Changelog:
    """The changelog of an application's store, as the engine would write it."""

    def __init__(self, stand: Stand, application_id: str, topology: Topology, partitions: int) -> None:
        self._topic = f"{application_id}-{served.STORE}-changelog"
        self._partitions = partitions
        stand.loader.make(f"{application_id}-in", f"{application_id}-out", partitions=partitions)
        config = StreamsConfig(application_id=application_id, bootstrap_servers=stand.servers)
        prepare_topics(topology, config, ClientSettings(stand.servers))
        self._producer = Producer(
            {
                "bootstrap.servers": stand.servers,
                "transactional.id": f"{application_id}-changelog",
                "linger.ms": 5,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": 2 * _TRANSACTION_RECORDS,
                "log_level": 0,
            }
        )
        self._producer.init_transactions()

    def write(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Writes records, in as many transactions as it takes."""
        some: list[tuple[bytes, bytes]] = []
        for record in records:
            some.append(record)
            if len(some) == _TRANSACTION_RECORDS:
                self.commit(some)
                some = []
        if some:
            self.commit(some)

    def commit(self, records: Iterable[tuple[bytes, bytes]]) -> float:
        """Writes records in one transaction; when (monotonic) its commit began."""
        self._producer.begin_transaction()
        now = int(time.time() * 1000)
        for key, value in records:
            partition = partition_for_key(key, self._partitions)
            self._producer.produce(self._topic, value, key, partition=partition, timestamp=now)
        self._producer.flush()
        begun = time.monotonic()
        self._producer.commit_transaction()
        return begun


class Instance:
    """A process of `headrace serve`, on one core if that is said. A context manager: it is killed on leaving."""

    def __init__(self, stand: Stand, application_id: str, topology: str, *, core: int | None = None) -> None:
        self._home = stand.directory / application_id
        self._home.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "headrace", "serve", f"benchmarks.served:{topology}", "--port", "0"]
        command += ["--application-id", application_id, "--bootstrap-servers", stand.servers]
        self._process = subprocess.Popen(
            [*command, "--state-dir", str(self._home / "state")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._home,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))},
        )
        if core is not None:
            # Threads have the core of the one that starts them.
            os.sched_setaffinity(self._process.pid, {core})
        try:
            self.address = self._read_address()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *_: object) -> None:
        kill_tree(self._process.pid)
        self._process.wait()

    def release(self) -> None:
        """Lets it use every core from now on."""
        for thread in os.listdir(f"/proc/{self._process.pid}/task"):
            os.sched_setaffinity(int(thread), os.sched_getaffinity(0))

    def get(self, path: str) -> Any:
        """What it answers."""
        host, _, port = self.address.rpartition(":")
        with closing(http.client.HTTPConnection(host, int(port), timeout=_READY_SECONDS)) as connection:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())

    def ready(self) -> Any:
        """What it says to whether it has restored its partitions, after a moment."""
        time.sleep(_LOOK_SECONDS)
        return self.get("/readyz")

    def await_share(self) -> list[int]:
        """Waits until it has restored a part of the partitions, but not all; which."""
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            owned = self._owned()
            if 0 < len(owned) < PARTITIONS and self.ready()["status"] == "ready":
                return owned
            self.check(deadline)

    def await_owned(self, partitions: Iterable[int]) -> None:
        """Waits until it owns just these partitions and has restored them."""
        deadline = time.monotonic() + _READY_SECONDS
        while self._owned() != list(partitions) or self.ready()["status"] != "ready":
            self.check(deadline)

    def check(self, deadline: float) -> None:
        """RuntimeError if it has ended, or if it is too late."""
        if self._process.poll() is not None:
            raise RuntimeError(f"An instance ended with code {self._process.returncode}.")
        if time.monotonic() > deadline:
            raise RuntimeError(f"An instance was not ready within {_READY_SECONDS:.0f} seconds.")

    def _owned(self) -> list[int]:
        for each in self.get("/v1/instances")["instances"]:
            if each["address"] == self.address:
                owned: list[int] = each["partitions"].get(served.STORE, [])
                return owned
        return []

    def _read_address(self) -> str:
        assert self._process.stdout is not None
        lines = []
        for line in self._process.stdout:
            lines.append(line)
            found = _ANSWERS_AT.search(line)
            if found:
                return found[1]
        raise RuntimeError("An instance did not start:\n" + "".join(lines[-_LOG_LINES:]))
