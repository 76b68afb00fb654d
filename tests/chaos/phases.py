"""Death at a given phase of a batch, put into the process that is to die."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka

from headrace.spark import commit, query
from headrace.spark.query import BatchRunner
from headrace.spark.working_copy import WorkingCopy
from headrace.state.lmdb_store import LmdbStores

BEFORE_PRODUCE = "before-produce"
"""The batch is computed and its state files are written, but no record yet."""
AFTER_PRODUCE = "after-produce"
"""All records lie in an open transaction."""
AFTER_COMMIT = "after-commit"
"""Kafka has committed the batch, Spark has not."""
AFTER_HOLD = "after-hold"
"""A task's working copy has committed what the batch changes, Kafka and Spark have not."""
REBUILD = "rebuild"
"""A task's state is being written anew, from the state files."""

KILLED_AT = (BEFORE_PRODUCE, AFTER_PRODUCE, AFTER_COMMIT, AFTER_HOLD, REBUILD)
STOPPED_AT = (AFTER_PRODUCE, BEFORE_PRODUCE, AFTER_COMMIT)
"""Where a driver is stopped, to wake up when another one has taken over."""


def say(*words: object) -> None:
    """Tells the test what happens, with the time: clocks of processes agree."""
    print(*words, time.monotonic(), flush=True)


class Doom:
    """Kills or stops this process in a phase: the first time that it comes to it from a given batch on."""

    def __init__(self, phase: str | None, first_batch: int = 0, sign: int = signal.SIGKILL) -> None:
        self._phase = phase
        self._first_batch = first_batch
        self._sign = sign
        self._batch = -1
        self._announce_batches()
        _replace(commit, functools.partial(_Producer, self), "Producer")
        if phase in (AFTER_HOLD, REBUILD):
            self._reach_into_workers(phase)

    def strike_at(self, phase: str) -> None:
        """Strikes if this is the phase."""
        if phase == self._phase and self._batch >= self._first_batch:
            self._phase = None
            say("strike", self._batch)
            # To this thread: one that is sent to the process may stop another first, while this one goes on to commit.
            signal.pthread_kill(threading.get_ident(), self._sign)

    def _announce_batches(self) -> None:
        run = BatchRunner.run

        def run_and_tell(runner: BatchRunner, frame: Any, number: int) -> None:
            self._batch = number
            say("begin", number)
            run(runner, frame, number)
            say("end", number)

        _replace(BatchRunner, run_and_tell, "run")

    def _reach_into_workers(self, phase: str) -> None:
        stage_function, driver = query.stage_function, os.getpid()

        def doomed_stage(*arguments: Any) -> Callable[[Iterator[Any]], Iterator[Any]]:
            run, number = stage_function(*arguments), self._batch
            if number < self._first_batch:
                return run

            def doomed(batches: Iterator[Any]) -> Iterator[Any]:
                from tests.chaos.phases import doom_worker

                doom_worker(phase, driver, number)
                yield from run(batches)

            return doomed

        _replace(query, doomed_stage, "stage_function")


class _Producer(confluent_kafka.Producer):
    """The application's producer, which comes by the phases of a commit."""

    def __init__(self, doom: Doom, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._doom = doom

    def begin_transaction(self) -> None:
        self._doom.strike_at(BEFORE_PRODUCE)
        super().begin_transaction()

    def commit_transaction(self, *arguments: Any) -> None:
        super().flush()
        self._doom.strike_at(AFTER_PRODUCE)
        super().commit_transaction(*arguments)
        self._doom.strike_at(AFTER_COMMIT)


def doom_worker(phase: str, driver: int, batch: int) -> None:
    """Has this worker kill the driver, then itself, when it comes to the phase."""

    def strike() -> None:
        with os.fdopen(os.open(f"/proc/{driver}/fd/1", os.O_WRONLY), "w") as told:
            print("strike", batch, time.monotonic(), file=told, flush=True)
        os.kill(driver, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    if phase == AFTER_HOLD:
        hold = WorkingCopy.hold

        def hold_and_strike(copy: WorkingCopy, *arguments: Any) -> None:
            hold(copy, *arguments)
            strike()

        _replace(WorkingCopy, hold_and_strike, "hold")
    else:
        clear, apply = LmdbStores.clear, LmdbStores.apply
        cleared: set[int] = set()

        def clear_and_note(stores: LmdbStores, *arguments: Any) -> None:
            clear(stores, *arguments)
            cleared.add(id(stores))

        def apply_and_strike(stores: LmdbStores, *arguments: Any) -> None:
            apply(stores, *arguments)
            if id(stores) in cleared:
                strike()

        _replace(LmdbStores, clear_and_note, "clear")
        _replace(LmdbStores, apply_and_strike, "apply")


def _replace(owner: Any, replacement: Any, name: str) -> None:
    setattr(owner, name, replacement)
