"""Death at a given phase of a batch, put into the process that is to die."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
from pyspark import SparkContext

from headrace.pipeline import Pipeline
from headrace.spark import commit, first_worker, job, runtime
from headrace.spark.batches import FIRST_BATCH, BatchLoop
from headrace.spark.commit_record import CommitRecord
from headrace.spark.task_run import Report
from headrace.spark.worker import Batch
from headrace.spark.working_copy import WorkingCopy
from headrace.state.lmdb_store import LmdbStores

BEFORE_PRODUCE = "before-produce"
"""The batch is computed, but no record is written yet."""
AFTER_PRODUCE = "after-produce"
"""All records lie in an open transaction."""
AFTER_COMMIT = "after-commit"
"""Kafka has committed the batch, the driver does not know it yet."""
AFTER_HOLD = "after-hold"
"""A task's working copy holds what the batch changes, Kafka has nothing of it."""
REBUILD = "rebuild"
"""A task's working copy is being read from the changelogs."""

KILLED_AT = (BEFORE_PRODUCE, AFTER_PRODUCE, AFTER_COMMIT, AFTER_HOLD, REBUILD)
STOPPED_AT = (AFTER_PRODUCE, BEFORE_PRODUCE, AFTER_COMMIT)
"""Where a driver is stopped, to wake up when another one has taken over."""

_HOURS_OFF = (0, 5, -7, 26, -2)
"""How far the clock is off, one second after the other."""
_real_time = time.time

_STAGES = ("run_all_stages", "run_first_stage", "run_later_stage")
"""What workers run, by the names that jobs know it by."""


def say(*words: object) -> None:
    """Tells the test what happens, with the time: clocks of processes agree."""
    # In one piece: the lines of two threads must not run into each other.
    print(" ".join(map(str, (*words, time.monotonic()))) + "\n", end="", flush=True)


class Doom:
    """Kills or stops this process in a phase: the first time that it comes to it from a given batch on.

    What an application commits when it first starts counts as batch 0, which is not announced.
    """

    def __init__(
        self,
        phase: str | None,
        first_batch: int = 0,
        sign: int = signal.SIGKILL,
        *,
        waits_for_spark: bool = False,
        pause_seconds: float = 0.0,
        clock_jumps: bool = False,
    ) -> None:
        self._phase = phase
        self._first_batch = first_batch
        self._sign = sign
        self.pause_seconds = pause_seconds
        self._batch = FIRST_BATCH
        self._announce_spark()
        self._announce_batches()
        self._announce_interruptions()
        _replace(commit, functools.partial(_Producer, self), "Producer")
        if waits_for_spark:
            _replace(runtime.SparkRuntime, lambda spark: None, "first_worker")
        self._reach_into_workers(lambda run: _slowed(run, pause_seconds))
        if clock_jumps:
            let_clock_jump()
            self._reach_into_workers(_with_jumping_clock)
        if phase in (AFTER_HOLD, REBUILD):
            self._reach_into_workers(lambda run: _doomed(run, phase, os.getpid(), first_batch))

    def aim_at(self, phase: str) -> None:
        """Has it strike the next time that the process comes to a phase of a commit."""
        self._phase, self._first_batch = phase, FIRST_BATCH

    def hurry(self) -> None:
        """Makes no more pauses; workers still do."""
        self.pause_seconds = 0.0

    def strike_at(self, phase: str) -> None:
        """Strikes if this is the phase."""
        if phase == self._phase and self._batch >= self._first_batch:
            self._phase = None
            say("strike", self._batch)
            # To this thread: one that is sent to the process may stop another first, while this one goes on to commit.
            signal.pthread_kill(threading.get_ident(), self._sign)

    def _announce_spark(self) -> None:
        make_context = runtime.make_context

        def make_context_and_tell(*arguments: Any, **options: Any) -> SparkContext:
            context = make_context(*arguments, **options)
            say("spark")
            return context

        _replace(runtime, make_context_and_tell, "make_context")

    def _announce_batches(self) -> None:
        begin, run, tell = BatchLoop._begin, BatchLoop._commit, BatchLoop._tell

        def begin_quietly(loop: BatchLoop) -> CommitRecord:
            self._batch = FIRST_BATCH
            return begin(loop)

        def run_and_tell(loop: BatchLoop, *arguments: Any) -> None:
            self._batch = loop._committed.batch + 1
            say("begin", self._batch)
            run(loop, *arguments)
            say("end", self._batch)

        def tell_of_rebuilt(loop: BatchLoop, number: int, reports: list[Report], *arguments: Any) -> None:
            if any(report.rebuilt for report in reports):
                say("rebuilt", number)
            tell(loop, number, reports, *arguments)

        _replace(BatchLoop, begin_quietly, "_begin")
        _replace(BatchLoop, run_and_tell, "_commit")
        _replace(BatchLoop, tell_of_rebuilt, "_tell")

    def _announce_interruptions(self) -> None:
        outlast = Pipeline._outlast

        def tell_and_outlast(pipeline: Pipeline, error: Exception) -> bool:
            # Also where it had just begun again: what it writes then may be lost too.
            say("interrupted")
            return outlast(pipeline, error)

        _replace(Pipeline, tell_and_outlast, "_outlast")

    def _reach_into_workers(self, changed: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Has Spark's workers and the first worker run something else."""
        for owner, name in (*((job, name) for name in _STAGES), (first_worker, _STAGES[0])):
            _replace(owner, changed(getattr(owner, name)), name)


def _slowed(run: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """The function in a worker that takes its time."""

    def slowed(*arguments: Any) -> Any:
        import time

        time.sleep(seconds)
        return run(*arguments)

    return slowed


def _with_jumping_clock(run: Callable[..., Any]) -> Callable[..., Any]:
    """The function in a worker whose clock jumps as the driver's does."""

    def skewed(*arguments: Any) -> Any:
        from tests.chaos.phases import let_clock_jump

        let_clock_jump()
        return run(*arguments)

    return skewed


def let_clock_jump() -> None:
    """Has this process's clock jump by hours each second."""
    if time.time is _real_time:
        _replace(time, lambda: _real_time() + _HOURS_OFF[int(time.monotonic()) % len(_HOURS_OFF)] * 3600, "time")


def _doomed(run: Callable[..., Any], phase: str, driver: int, first_batch: int) -> Callable[..., Any]:
    """The function with a worker that is struck in the phase."""

    def doomed(program_id: str, pickled: Any, batch: Batch, *arguments: Any) -> Any:
        from tests.chaos.phases import doom_worker

        if batch.number >= first_batch:
            doom_worker(phase, driver, batch.number)
        return run(program_id, pickled, batch, *arguments)

    return doomed


class _Producer(confluent_kafka.Producer):
    """The application's producer, which comes by the phases of a commit."""

    def __init__(self, doom: Doom, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._doom = doom

    def begin_transaction(self) -> None:
        time.sleep(self._doom.pause_seconds)
        self._doom.strike_at(BEFORE_PRODUCE)
        super().begin_transaction()

    def commit_transaction(self, *arguments: Any) -> None:
        super().flush()
        time.sleep(self._doom.pause_seconds)
        self._doom.strike_at(AFTER_PRODUCE)
        super().commit_transaction(*arguments)
        self._doom.strike_at(AFTER_COMMIT)
        time.sleep(self._doom.pause_seconds)


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
