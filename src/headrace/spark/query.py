"""The streaming query of an application: each micro-batch runs every task once and is committed as a whole."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import Broadcast, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from headrace.errors import EnvironmentFailed, StreamsError
from headrace.kafka.topics import Topics
from headrace.spark.checkpoint import EMPTY, Manifest, StateFiles
from headrace.spark.commit import NEVER, Committed, TransactionalCommitter, last_commit, taken_over
from headrace.spark.failures import is_lost_worker
from headrace.spark.recent_changes import RecentChanges
from headrace.spark.results import sort_out, stale_tasks
from headrace.spark.rows import PARCELS
from headrace.spark.slots import slots_for
from headrace.spark.source import Range, ranges_of
from headrace.spark.ticker import Ticker
from headrace.spark.worker import Batch, Program, Report, no_tasks, stage_function

logger = logging.getLogger(__name__)

_ATTEMPTS = 4
_FIRST_PAUSE = 0.5


@dataclass(frozen=True)
class BatchProgress:
    """What a batch did."""

    batch: int
    """Its number; a batch that only punctuates has that of the one before it."""
    records: int
    outputs: int
    dropped: Mapping[str, int]
    stores: Mapping[str, int]
    seconds: float


class BatchRunner:
    """Runs the batches of one query, one after the other.

    Besides the query's own batches, which bring records, it runs batches of its own for punctuations that are due
    while no records arrive. These have the number of the batch before them, and a token of their own: Spark's
    numbering knows nothing of them, and the next batch with records goes on from what they left.

    After an error it runs nothing more: what was committed is known to a new one.
    """

    def __init__(
        self,
        program: Program,
        session: SparkSession,
        committer: TransactionalCommitter,
        files: StateFiles,
        on_progress: Callable[[BatchProgress], None],
    ) -> None:
        self._program = program
        self._layout = program.layout
        self._pickled = cloudpickle.dumps(program)
        self._program_id = uuid.uuid4().hex
        self._session = session
        self._committer = committer
        self._files = files
        self._on_progress = on_progress
        self._committed = committer.committed()
        self._tried = self._committed
        """What was last asked to be committed; after an error, who knows whether it was."""
        self._state = self._load_state()
        self._stores: dict[str, dict[str, int]] = {}
        self._slots = slots_for(self._layout.width)
        self._recent = RecentChanges(session.sparkContext)
        self._lock = threading.Lock()
        """Held by the batch that runs."""
        self._records_wait = False
        """Whether a batch of the query waits for one of the runner's own."""
        # What a task has scheduled is known once it has run: so each that may schedule runs with the first batch.
        self._due = dict.fromkeys(self._layout.tasks_of(sorted(self._layout.scheduling)), 0)
        """By sub-topology and partition, when its next wall-clock punctuation is due."""
        self._ticker = Ticker(self._tick)
        self._query: StreamingQuery | None = None
        self._ready = threading.Event()
        self.failure: Exception | None = None
        """What made a batch of the runner's own fail, or kept it from running any."""

    def begin(self, query: StreamingQuery) -> None:
        """Lets the query's batches run, if the query is the one that the last commit belongs to."""
        self._query = query
        known = self._committed.query
        if known and known != str(query.id):
            self.failure = EnvironmentFailed(
                f"{self._last_commit()} belongs to another checkpoint of Spark's than the one in use, which would "
                f"read the source topics from the beginning and pass over its first batches. {self._way_out()}"
            )
        self._ready.set()
        if self.failure is not None:
            query.stop()
            raise self.failure
        self._set_ticker()
        self._ticker.start()

    def end(self, seconds: float | None = None) -> None:
        """Runs no more batches of its own; one that runs is waited for, as long as is said."""
        self._ticker.end(seconds)

    def may_have_made(self, commit: Committed) -> bool:
        """Whether the last commit, as Kafka has it, is one that it knows of; if not, it is another process's."""
        return commit in (NEVER, self._committed, self._tried)

    def run(self, frame: DataFrame, number: int) -> None:
        """Runs a batch of the query to its commit, unless it is committed already."""
        self._ready.wait()
        self._records_wait = True
        with self._lock:
            self._records_wait = False
            if self.failure is not None:
                raise self.failure
            if number <= self._committed.batch:
                logger.info("batch %d is committed already", number)
            elif self._layout.tasks:
                self._run(frame, number)
            self._set_ticker()

    def _tick(self) -> None:
        """Runs the tasks whose punctuations are due, without records; an error ends the query."""
        try:
            with self._lock:
                if self.failure is None and self._due_tasks(_now()):
                    self._run(None, self._committed.batch)
                self._set_ticker()
        except Exception as error:
            logger.debug("a punctuation failed", exc_info=error)
            if not self._ticker.is_ended:
                assert self._query is not None
                self._ticker.end()
                self._query.stop()

    def _run(self, frame: DataFrame | None, number: int) -> None:
        try:
            self._commit(frame, number)
        except Exception as error:
            self.failure = error
            raise

    def _commit(self, frame: DataFrame | None, number: int) -> None:
        assert self._query is not None
        started = time.perf_counter()
        clock = _now()
        ranges = [] if frame is None else ranges_of(frame)
        shared = self._shared(each for each in ranges if each.topic in self._layout.global_topics)
        outputs, changes, reports = sort_out(self._compute(self._assigned(ranges), shared, number, clock))
        offsets = {(topic, report.partition): offset for report in reports for topic, offset in report.offsets.items()}
        versions = {report.task: report.version for report in reports if report.version}
        manifest = self._files.prepare(self._state, number, changes, versions, {e.place: e.end for e in shared})
        committed = Committed(number, manifest.token, str(self._query.id))
        self._tried = committed
        self._committer.commit(outputs, committed, offsets)
        self._recent.add(self._state.versions, versions, changes)
        self._state, self._committed = manifest, committed
        self._files.clean(manifest)
        if self._layout.returning and outputs:
            # Spark's next batch should find them: who waits for all that is available waits for these too.
            self._committer.await_visible(self._layout.returning)
        self._schedule(reports)
        self._count(reports)
        if frame is not None or outputs:
            self._tell(number, reports, len(outputs), time.perf_counter() - started)

    def _compute(
        self, reads: Mapping[str, tuple[Range, ...]], shared: tuple[Range, ...], number: int, clock: int
    ) -> pa.Table:
        due = frozenset(f"{group}_{partition}" for group, partition in self._due_tasks(clock))
        recent = self._recent.batches
        batch = Batch(
            self._pickled, self._program_id, number, clock, self._state.versions, {}, recent, reads, shared, due
        )
        rebuild: dict[str, Broadcast[bytes]] = {}
        try:
            while True:
                table = self._attempt(replace(batch, rebuild=rebuild))
                stale = stale_tasks(table)
                if not stale:
                    return table
                logger.info("working copies are rebuilt from the checkpoint: %s", ", ".join(sorted(stale)))
                for task, state in self._saved(stale).items():
                    rebuild[task] = self._session.sparkContext.broadcast(state)
        finally:
            for sent in rebuild.values():
                sent.destroy()

    def _saved(self, tasks: set[str]) -> dict[str, bytes]:
        """The state of these tasks from its files, which another process removes if it has gone on meanwhile."""
        try:
            return self._files.read(self._state, tasks)
        except StreamsError as error:
            application_id = self._program.application_id
            if self.may_have_made(last_commit(self._program.settings, application_id)):
                raise
            raise taken_over(application_id) from error

    def _attempt(self, batch: Batch) -> pa.Table:
        """What the tasks give; where a worker died on the way they are run again, some times."""
        for attempt in range(1, _ATTEMPTS):
            try:
                return self._plan(batch).toArrow()
            except Exception as error:
                if not is_lost_worker(error):
                    raise
                logger.warning("batch %d, attempt %d: a worker died; it is tried again", batch.number, attempt)
                time.sleep(_FIRST_PAUSE * 2 ** (attempt - 1))
        return self._plan(batch).toArrow()

    # --- the plan of a batch -------------------------------------------------------------------------------------

    def _plan(self, batch: Batch) -> DataFrame:
        """The stages of a batch, each but the first behind a shuffle."""
        width = self._layout.width
        rows = self._session.range(0, width, 1, width).mapInArrow(stage_function(batch, 0), PARCELS)
        for stage in range(1, len(self._layout.stages)):
            rows = rows.repartition(width, self._slot(F.col("partition")))
            rows = rows.mapInArrow(stage_function(batch, stage), PARCELS)
        return rows

    def _assigned(self, ranges: Iterable[Range]) -> dict[str, tuple[Range, ...]]:
        """The ranges by the task that reads them."""
        reads: dict[str, tuple[Range, ...]] = {}
        for each in ranges:
            if each.topic not in self._layout.global_topics:
                task = self._layout.task_for(each.topic, each.partition)
                reads[task] = (*reads.get(task, ()), each)
        return reads

    def _shared(self, ranges: Iterable[Range]) -> tuple[Range, ...]:
        """What every task is to read for the global tables, from where it was read to before.

        The first batch reads all there is, also where that is more than Spark has planned: no record may meet a global
        table that is not whole.
        """
        planned = list(ranges)
        if planned and not self._state.token:
            ends = Topics(self._program.settings).ends((each.topic, each.partition) for each in planned)
            planned = [replace(each, end=max(each.end, ends[each.topic, each.partition])) for each in planned]
        known = self._state.global_ends
        begun = (replace(each, start=max(each.start, known.get(each.place, 0))) for each in planned)
        return tuple(each for each in begun if each.start < each.end)

    def _slot(self, partition: Any) -> Any:
        """A number whose hash puts partition n of the topics into partition n of the shuffle."""
        return F.array(*[F.lit(slot) for slot in self._slots])[F.pmod(partition, F.lit(len(self._slots)))]

    # --- punctuations --------------------------------------------------------------------------------------------

    def _due_tasks(self, clock: int) -> list[tuple[int, int]]:
        """The tasks with a punctuation that is due."""
        return [task for task, due in self._due.items() if due <= clock]

    def _schedule(self, reports: list[Report]) -> None:
        """Remembers when the tasks that ran are to run next."""
        for report in reports:
            task = int(report.task.partition("_")[0]), report.partition
            if report.next_punctuation is None:
                self._due.pop(task, None)
            else:
                self._due[task] = report.next_punctuation

    def _set_ticker(self) -> None:
        """Sets the next moment, unless records wait: their batch brings what is due."""
        self._ticker.set(None if self._records_wait else min(self._due.values(), default=None))

    # --- what was committed --------------------------------------------------------------------------------------

    def _load_state(self) -> Manifest:
        committed = self._committed
        if not committed.token:
            return EMPTY
        manifest = self._files.load(committed.batch, committed.token)
        if manifest is None:
            raise EnvironmentFailed(
                f"{self._last_commit()}, but {self._files.location} does not have its state. {self._way_out()}"
            )
        return manifest

    def _last_commit(self) -> str:
        return f"Kafka says that batch {self._committed.batch} of {self._program.application_id} is committed"

    def _way_out(self) -> str:
        return (
            "Nothing was touched. Give the application the state_dir it had, or bring the files back. If they are "
            "gone, take it back to the beginning with: headrace reset"
        )

    # --- what is told --------------------------------------------------------------------------------------------

    def _count(self, reports: list[Report]) -> None:
        self._stores.update((report.task, report.stores) for report in reports)

    def _tell(self, number: int, reports: list[Report], outputs: int, seconds: float) -> None:
        dropped: dict[str, int] = {}
        for report in reports:
            for reason, count in report.dropped.items():
                dropped[reason] = dropped.get(reason, 0) + count
        stores: dict[str, int] = {}
        for counts in self._stores.values():
            for store, count in counts.items():
                stores[store] = stores.get(store, 0) + count
        records = sum(report.records for report in reports)
        self._on_progress(BatchProgress(number, records, outputs, dropped, stores, seconds))


def empty_batch(session: SparkSession) -> DataFrame:
    """What has Spark do all it does for a batch, with as many workers as there are cores, and no tasks."""
    width = session.sparkContext.defaultParallelism
    return session.range(0, width, 1, width).mapInArrow(no_tasks, PARCELS)


def start_query(
    frame: DataFrame,
    runner: BatchRunner,
    run: Callable[[DataFrame, int], None],
    checkpoint: str,
    name: str,
    interval_ms: int | None,
) -> StreamingQuery:
    """Starts the query; `run` runs the runner's batches, which are its micro-batches."""
    writer = frame.writeStream.foreachBatch(run).option("checkpointLocation", checkpoint).queryName(name)
    if interval_ms is not None:
        writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
    query = writer.start()
    runner.begin(query)
    return query


def _now() -> int:
    return int(time.time() * 1000)
