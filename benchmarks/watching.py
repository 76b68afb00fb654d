"""What a read_committed reader sees of a topic, and when: a process of its own, so that nothing delays it."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import SynchronizedArray
from multiprocessing.synchronize import Event
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.offsets import Offsets

_READY_SECONDS = 60.0
_POLL_SECONDS = 0.1
_CHUNK = 1_000


class Arrival(NamedTuple):
    """A result when it could first be read; the clock is the machine's monotonic one."""

    at: float
    partition: int
    key: bytes
    value: bytes


class Watcher:
    """Reads a topic from its end on until it is closed. A context manager."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._mine, theirs = spawn.Pipe(duplex=False)
        self._counts: SynchronizedArray[int] = spawn.Array("Q", partitions)
        self._stopped = spawn.Event()
        ready = spawn.Event()
        offsets = Offsets(servers, f"watcher-of-{topic}", partitions)
        starts = offsets.ends(topic)
        offsets.close()
        arguments = (servers, topic, starts, self._counts, ready, self._stopped, theirs)
        self._process = spawn.Process(target=_watch, args=arguments, daemon=True)
        self._process.start()
        theirs.close()  # so that a reader that fails is not waited for
        if not ready.wait(_READY_SECONDS):
            raise RuntimeError(f"The reader of {topic} was not ready within {_READY_SECONDS:.0f} seconds.")

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._process.is_alive():
            self._process.kill()
        self._process.join()

    @property
    def counts(self) -> list[int]:
        """How many results there have been so far, by partition."""
        return self._counts[:]

    def stop(self) -> list[Arrival]:
        """Ends the reading; all that was seen, in order."""
        self._stopped.set()
        arrivals: list[Arrival] = self._mine.recv()
        self._process.join()
        return arrivals


def _watch(
    servers: str,
    topic: str,
    starts: list[int],
    counts: SynchronizedArray[int],
    ready: Event,
    stopped: Event,
    result: Connection,
) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"watcher-of-{topic}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, end) for number, end in enumerate(starts)])
    ready.set()
    arrivals: list[Arrival] = []
    while not stopped.is_set():
        message = consumer.poll(_POLL_SECONDS)
        messages = [] if message is None else [message, *consumer.consume(_CHUNK, timeout=0)]
        at = time.monotonic()
        for message in messages:
            error = message.error()
            if error is not None:
                if error.retriable():
                    continue
                raise KafkaException(error)
            arrivals.append(Arrival(at, message.partition(), message.key(), message.value()))
            counts[message.partition()] += 1
    consumer.close()
    result.send(arrivals)
