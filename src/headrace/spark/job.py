"""A batch as a Spark job: as few Spark tasks as it needs, each running several stream tasks.

Where there is little to do, one Spark task runs all stages. Otherwise there are at most as many as cores, and a shuffle
between two stages. While Spark starts, a worker process of its own runs all stages.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

from pyspark import RDD, Broadcast, SparkContext

from headrace.errors import StreamsError, WorkerLost
from headrace.spark.failures import is_lost_worker
from headrace.spark.first_worker import FirstWorker
from headrace.spark.jvm import collect, forget_deleted_files, remember_classes
from headrace.spark.parcels import Parcel
from headrace.spark.worker import (
    Batch,
    Program,
    Work,
    read_to_its_end,
    run_all_stages,
    run_first_stage,
    run_later_stage,
    stage_of,
)
from headrace.spark.working_copy import StaleCopyError

logger = logging.getLogger(__name__)

_BATCHES_BETWEEN_CLEANING = 1_000
_ATTEMPTS = 4
_FIRST_PAUSE = 0.5
_LOOK_SECONDS = 0.5
_MOST_RECORDS = 20_000
"""How many records the first worker takes at once."""
_PRACTICE_JOBS = 40
_PRACTICE_BYTES = 20_000
"""What the records of a small batch take."""
_PATIENCE_SECONDS = 2.0
"""How long the first worker may still work on a batch when Spark is ready."""


class HandedOver(Exception):
    """Batches run on Spark from now on: what the first worker was given is to be planned again."""


class Jobs:
    """Runs the batches of a program: in the first worker, if there is one, until Spark is ready."""

    def __init__(
        self, program: Program, spark: Future[BatchJobs], worker: FirstWorker | None, hurry: Callable[[], None]
    ) -> None:
        """`hurry` has Spark be ready as soon as it can, where there is no worker that runs batches meanwhile."""
        self.program = program
        self._spark = spark
        self._worker = worker
        self._hurry = hurry
        if worker is None:
            hurry()
        self._ready_since: float | None = None
        self._is_cancelled = False
        spark.add_done_callback(self._note_ready)

    def move_to_spark(self, records: int) -> bool:
        """Whether a batch of so many records runs on Spark; if so, all after it do.

        What is much is left to Spark although that has to start first: on the same cores, it would start later.
        """
        if self._spark.done() or records > _MOST_RECORDS:
            self._leave_worker()
        return self._worker is None

    @property
    def have_failed(self) -> bool:
        """Whether Spark is not to be had for this program."""
        return self._spark.done() and (self._spark.cancelled() or self._spark.exception() is not None)

    def widths(self, *, is_small: bool) -> tuple[int, ...]:
        """How many Spark tasks each stage gets; a single number where one Spark task runs all of them."""
        return self._on_spark().widths(is_small=is_small) if self._worker is None else (1,)

    def run(self, batch: Batch, works: Sequence[Work], description: str) -> list[Parcel]:
        """What the tasks give; HandedOver where the first worker did not come to an end with them."""
        worker = self._worker
        if worker is None:
            return self._on_spark().run(batch, works, description)
        parcels = worker.run(batch, works, self._is_over)
        if parcels is None:
            self._leave_worker()
            raise HandedOver
        return parcels

    def cancel(self) -> None:
        """Ends the batch that runs, if there is one."""
        self._is_cancelled = True
        self._leave_worker()
        self._spark.cancel()
        if self._spark.done() and not self.have_failed:
            self._spark.result().cancel()

    def close(self) -> None:
        """Lets go of the workers, and of what was sent to them."""
        self._leave_worker()
        if self._spark.done() and not self.have_failed:
            self._spark.result().close()

    def _on_spark(self) -> BatchJobs:
        """What runs batches on Spark, which is waited for."""
        while not self._spark.done():
            self._check_cancelled()
            wait([self._spark], _LOOK_SECONDS)
        self._check_cancelled()
        return self._spark.result()

    def _check_cancelled(self) -> None:
        if self._is_cancelled:
            raise StreamsError("The batch was cancelled.")

    def _is_over(self) -> bool:
        """Whether Spark has been ready for so long that it runs the batch itself, and others beside it."""
        return self._ready_since is not None and time.monotonic() > self._ready_since + _PATIENCE_SECONDS

    def _note_ready(self, spark: Future[BatchJobs]) -> None:
        self._ready_since = time.monotonic()

    def _leave_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()
            self._hurry()


class BatchJobs:
    """Runs the batches of a program on Spark."""

    def __init__(self, context: SparkContext, program: Program, pickled: bytes) -> None:
        self._context = context
        self._layout = program.layout
        self._group = program.application_id
        self._program: tuple[str, Broadcast[bytes]] = (program.id, context.broadcast(pickled))
        self.width = max(1, context.defaultParallelism)
        """How many Spark tasks run at once."""
        remember_classes(context)
        self._empty: dict[int, RDD[Any]] = {}
        """RDDs of so many partitions with nothing in them: what a Spark task works on comes with its function."""

    def widths(self, *, is_small: bool) -> tuple[int, ...]:
        """How many Spark tasks each stage gets; a single number where one Spark task runs all of them."""
        if is_small:
            return (1,)
        counts = (sum(self._layout.tasks[group] for group in stage) for stage in self._layout.stages)
        return tuple(min(self.width, count) for count in counts)

    def run(self, batch: Batch, works: Sequence[Work], description: str) -> list[Parcel]:
        """What the tasks give; where a worker died on the way they are run again, some times."""
        self._context.setJobGroup(self._group, description)
        if batch.number % _BATCHES_BETWEEN_CLEANING == 0:
            forget_deleted_files(self._context)
        for attempt in range(1, _ATTEMPTS):
            try:
                return self._run(batch, works)
            except Exception as error:
                lost = isinstance(error, WorkerLost) or is_lost_worker(error)
                if not lost and StaleCopyError.__name__ not in str(error):
                    raise
                logger.warning("batch %d, attempt %d: a worker was lost; the batch is repeated", batch.number, attempt)
                time.sleep(_FIRST_PAUSE * 2 ** (attempt - 1))
        return self._run(batch, works)

    def cancel(self) -> None:
        """Ends the job that runs, if there is one."""
        self._context.cancelJobGroup(self._group)

    def close(self) -> None:
        """Lets go of what was sent to the workers."""
        self._program[1].destroy()

    def _run(self, batch: Batch, works: Sequence[Work]) -> list[Parcel]:
        stages = len(self._layout.stages)
        first = min(stage_of(self._layout, work.task) for work in works)
        if len(batch.widths) == 1 or first == stages - 1:
            groups = _balanced(works, batch.widths[first] if len(batch.widths) > 1 else batch.widths[0])
            run = partial(run_all_stages, *self._program, batch, groups)
            return collect(self._tasks(len(groups)).mapPartitionsWithIndex(run))
        # Stages before the first one that has work have no rows to pass on.
        at_first = [work for work in works if stage_of(self._layout, work.task) == first]
        later = [work for work in works if stage_of(self._layout, work.task) > first]
        groups = _balanced(at_first, batch.widths[first])
        rdd = self._tasks(len(groups))
        rdd = rdd.mapPartitionsWithIndex(partial(run_first_stage, *self._program, batch, first, groups))
        for stage in range(first + 1, stages):
            rdd = rdd.partitionBy(batch.widths[stage], _itself)
            rdd = rdd.mapPartitionsWithIndex(partial(run_later_stage, *self._program, batch, stage, later))
        addressed: list[tuple[int, Parcel]] = collect(rdd)
        return [parcel for _, parcel in addressed]

    def _tasks(self, count: int) -> RDD[Any]:
        if count not in self._empty:
            self._empty[count] = self._context.parallelize([], count)
        return self._empty[count]


def warm_up(context: SparkContext, is_wanted: Callable[[], bool]) -> None:
    """Has Spark do all it does for a batch: first with as many workers as there are cores, then again and again.

    Its first jobs take three times as long as later ones, until Java has compiled what they need. It ends when Spark
    is wanted for batches.
    """
    width = max(1, context.defaultParallelism)
    context.parallelize(range(width), width).mapPartitions(_import_worker).collect()
    remember_classes(context)
    empty: RDD[Any] = context.parallelize([], 1)
    for _ in range(_PRACTICE_JOBS):
        if is_wanted():
            return
        collect(empty.mapPartitionsWithIndex(partial(_practise, bytes(_PRACTICE_BYTES))))


def _practise(given: bytes, number: int, nothing: Iterable[None]) -> Iterator[bytes]:
    read_to_its_end(nothing)
    return iter([given])


def _import_worker(numbers: Iterable[int]) -> Iterator[int]:
    import headrace.spark.task_run  # noqa: F401

    return iter(numbers)


def _balanced(works: Sequence[Work], count: int) -> list[list[Work]]:
    """The works in so many groups that have about as much to read each; none is empty unless there is no work."""
    groups: list[list[Work]] = [[] for _ in range(max(1, min(count, len(works))))]
    sizes = [0] * len(groups)
    for work in sorted(works, key=_size, reverse=True):
        least = sizes.index(min(sizes))
        groups[least].append(work)
        sizes[least] += _size(work)
    return groups


def _size(work: Work) -> int:
    return 1 + sum(each.end - each.start for each in work.reads)


def _itself(number: int) -> int:
    return number
