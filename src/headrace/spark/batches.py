"""The loop of an application: plan a batch, run it, commit it, wait for more."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial

from headrace.errors import KafkaAway, StreamsError
from headrace.kafka.topics import Topics
from headrace.spark.changelog_ends import ChangelogEnds
from headrace.spark.commit import TransactionalCommitter
from headrace.spark.commit_record import NEVER_RUN, CommitRecord, TaskState
from headrace.spark.fingerprint import Fingerprint
from headrace.spark.job import HandedOver, Jobs
from headrace.spark.pace import MOST_BYTES, Pace
from headrace.spark.progress import BatchProgress
from headrace.spark.purge import Purge
from headrace.spark.ranges import Range
from headrace.spark.recent_versions import RecentVersions
from headrace.spark.results import Outputs, sort_out
from headrace.spark.retention import ChangelogRetention
from headrace.spark.source import Source
from headrace.spark.tail import MOST_RECORDS, Place
from headrace.spark.task_run import Report
from headrace.spark.worker import Batch, Program, Work

logger = logging.getLogger(__name__)

_RETURN_SECONDS = 15.0
"""How long readers may take to see what was committed."""
_PAUSE_SECONDS = 0.2
_LONGEST_WAIT = 0.2
"""Seconds after which the loop looks whether it is to stop, or whether the clock was set."""
FIRST_BATCH = 0


class LoopEnded(StreamsError):
    """The loop was stopped, or has failed, before it came to what was waited for."""


class BatchLoop:
    """Runs batches one after the other, in a thread of its own, until it is stopped or one fails.

    After an error it runs nothing more: what was committed is known to a new one.
    """

    def __init__(
        self,
        program: Program,
        topology: Fingerprint,
        jobs: Jobs,
        committer: TransactionalCommitter,
        pace: Pace,
        on_progress: Callable[[BatchProgress], None],
    ) -> None:
        self._program = program
        self._layout = program.layout
        self._topology = topology
        self._jobs = jobs
        self._committer = committer
        self._on_progress = on_progress
        self._pace = pace
        committed = committer.last()
        topics = Topics(program.settings)
        changelogs = topics.describe(program.changelogs.values())
        self._source = Source(
            program.settings,
            program.layout,
            program.application_id,
            {} if committed is None else committed.positions(),
            {} if committed is None else committed.topic_ids,
            self._pace,
            changelogs=changelogs,
            skips_lost=program.skips_lost,
        )
        self._source.begin()
        places = [(topic, number) for topic, count in changelogs.items() for number in range(count)]
        self._changelog_ends = ChangelogEnds(committer.least_ends(places), self._changelogs(), committer.marker)
        self._changelog_ids = topics.ids(program.changelogs.values())
        self._tried = ""
        """The token of the commit that was last tried; after an error, who knows whether it was made."""
        self._committed = self._begin() if committed is None else committed
        # What a task has scheduled is known once it has run: so each that may schedule runs with the first batch.
        scheduling = program.layout.tasks_of(sorted(program.layout.scheduling))
        self._left: list[Range] = []
        """What was planned to be read and is left for the next batch."""
        self._at_first: set[str] = set()
        """Tasks that have run while Spark starts."""
        self._due: dict[str, int] = {f"{group}_{partition}": 0 for group, partition in scheduling}
        """By task, when its next wall-clock punctuation is due."""
        self._recent = None if program.copies else RecentVersions(topics, self._changelogs())
        stores = program.topology.stores.values()
        self._retention = ChangelogRetention(topics, program.changelogs, stores)
        self._retention.begin(self._committed.tasks, _now())
        self._purge = Purge(topics, program.layout)
        self._stores: dict[str, dict[str, int]] = {}
        self._all_offsets_sent = False
        self._done = dict(self._source.positions)
        """The positions of the last commit, and those of partitions that were found since."""
        self._changed = threading.Condition()
        self._stopping = False
        self._busy = False
        self._waiting = 0
        """How many wait for all that is there to be processed."""
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="headrace-batches", daemon=True)

    def start(self) -> None:
        """Begins with the first batch."""
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Begins no more batches; whether the one that runs has ended in time. One that has not is cancelled."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            ended = self._changed.wait_for(lambda: not self._busy, seconds)
        if not ended:
            self._jobs.cancel()
        return ended

    def join(self) -> None:
        """Waits until no batch runs any more."""
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether batches are still run."""
        return self._thread.is_alive()

    def may_have_made(self, commit: CommitRecord | None) -> bool:
        """Whether the last commit, as Kafka has it, is one that it knows of; if not, it is another process's.

        One that came before its own was told by a broker that does not know yet that it was replaced.
        """
        if commit is None or commit.batch < self._committed.batch:
            return True
        return commit.token in (self._committed.token, self._tried)

    def process_all_available(self) -> None:
        """Waits until everything that is in the source topics now has been processed, and what comes of it.

        LoopEnded where it is not.
        """
        topics = Topics(self._program.settings)
        while True:
            try:
                if self._layout.returning:
                    topics.await_committed(self._layout.returning, _RETURN_SECONDS)
                wanted = self._ends(topics)
            except KafkaAway as error:
                if not self.is_alive:
                    raise LoopEnded("No more batches are run.") from error
                time.sleep(_PAUSE_SECONDS)
                continue
            if self._is_through(wanted):
                return
            with self._changed:
                self._waiting += 1
                try:
                    self._changed.wait_for(partial(self._is_over_or_through, wanted))
                finally:
                    self._waiting -= 1
                if not self._is_through(wanted):
                    raise LoopEnded("No more batches are run.") from self.failure
            if not self._layout.returning:
                return

    def close(self) -> None:
        """Lets go of the connections."""
        self._source.close()
        self._committer.close()

    # --- the loop ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            interval = (self._program.config.commit_interval_ms or 0) / 1000
            began = 0.0
            while self._may_begin(began if self._left else began + interval):
                began = time.monotonic()
                ranges, due = self._plan()
                try:
                    if ranges or due:
                        self._commit(ranges, due)
                    elif not self._waiting:
                        self._await_news()
                except HandedOver:
                    self._left += ranges
                self._rest()
        except Exception as error:
            logger.debug("a batch failed", exc_info=error)
            self.failure = error
        finally:
            with self._changed:
                self._busy = False
                self._stopping = True
                self._changed.notify_all()

    def _plan(self) -> tuple[list[Range], list[str]]:
        """What the next batch reads, and its tasks that have a punctuation to run.

        While Spark starts, a task runs alone for the first time: its results need not wait until the stores of all are
        rebuilt. Where tasks send rows to each other, those of all have to be merged by time: all are in one batch.
        """
        ranges, due, self._left = self._left or self._source.plan(), self._due_tasks(), []
        records = sum(each.end - each.start for each in ranges)
        if self._jobs.move_to_spark(records) or len(self._layout.stages) > 1 or not (ranges or due):
            return ranges, due
        tasks = {*due, *(self._layout.task_for(*each.place) for each in ranges)}
        now = tasks & self._at_first or {min(tasks)}
        self._at_first |= now
        reads: list[Range] = []
        for each in ranges:
            (reads if self._layout.task_for(*each.place) in now else self._left).append(each)
        return reads, [task for task in due if task in now]

    def _may_begin(self, moment: float) -> bool:
        """Waits until the next batch may begin; False if none may any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, max(0.0, moment - time.monotonic()))
            self._busy = not self._stopping
            return self._busy

    def _rest(self) -> None:
        with self._changed:
            self._busy = False
            self._done = dict(self._source.positions)
            self._changed.notify_all()
        if self._waiting:
            self._source.look_again()

    def _await_news(self) -> None:
        """Waits until there are records to read or punctuations to run."""
        while not (self._stopping or self._waiting):
            wait = _LONGEST_WAIT
            if self._due:
                wait = min(wait, max(0.0, min(self._due.values()) / 1000 - time.time()))
            if self._source.wait(wait) or self._due_tasks():
                return

    def _is_through(self, wanted: Mapping[Place, int]) -> bool:
        return all(end <= self._done.get(place, 0) for place, end in wanted.items())

    def _is_over_or_through(self, wanted: Mapping[Place, int]) -> bool:
        return (self._stopping and not self._busy) or self._is_through(wanted)

    def _ends(self, topics: Topics) -> dict[Place, int]:
        counts = topics.describe()
        sources = self._layout.sources(counts)
        return topics.ends((topic, number) for topic in sources for number in range(counts[topic]))

    # --- a batch -----------------------------------------------------------------------------------------------

    def _begin(self) -> CommitRecord:
        """Commits where the application begins: from now on there is a commit record."""
        record = self._record(FIRST_BATCH, {})
        self._commit_record(Outputs(), record, record.positions(), [])
        return record

    def _commit(self, ranges: list[Range], due: list[str]) -> None:
        started = time.perf_counter()
        number = self._committed.batch + 1
        outputs, reports = Outputs(), list[Report]()
        works = self._works(ranges, due)
        if works:
            outputs, reports = self._compute(number, works)
        self._source.advance([self._cut(each, reports) for each in ranges])
        states = {report.task: report.state for report in reports if report.state is not None}
        self._retention.follow(states, _now())
        record = self._record(number, states)
        moved = record.positions() if not self._all_offsets_sent else self._moved(record)
        self._commit_record(outputs, record, self._source.existing(moved), ranges)
        self._all_offsets_sent = True
        self._changelog_ends.add(outputs)
        with self._changed:
            self._committed = record
        self._purge.follow(self._source.positions)
        if self._recent is not None:
            self._recent.add({task: state.version for task, state in states.items()})
        self._schedule(reports)
        seconds = time.perf_counter() - started
        self._pace.learn(sum(each.records for each in reports), sum(each.bytes for each in reports), seconds)
        if works and (ranges or outputs):
            self._tell(number, reports, len(outputs), seconds)

    def _works(self, ranges: list[Range], due: list[str]) -> list[Work]:
        """The tasks that have something to do."""
        reads: dict[str, list[Range]] = {task: [] for task in due}
        for each in ranges:
            if each.rows is None or each.rows:
                reads.setdefault(self._layout.task_for(*each.place), []).append(each)
        return [Work(task, self._state_of(task), tuple(found)) for task, found in reads.items()]

    def _compute(self, number: int, works: list[Work]) -> tuple[Outputs, list[Report]]:
        records = sum(each.end - each.start for work in works for each in work.reads)
        is_small = records <= MOST_RECORDS
        widths = self._jobs.widths(is_small=is_small)
        later = [task for stage in range(1, len(self._layout.stages)) for task in self._layout.stage_tasks(stage)]
        batch = Batch(
            number,
            _now(),
            {task: state for task in later if (state := self._state_of(task)) is not NEVER_RUN},
            widths,
            {} if self._recent is None else self._recent.of([*later, *(work.task for work in works)]),
            MOST_BYTES // max(1, len(works)),
            self._changelog_ends.of([*later, *(work.task for work in works)]),
            self._source.global_ends(),
        )
        outputs, reports = sort_out(self._jobs.run(batch, works, f"batch {number}: {records} records"))
        silent = {work.task for work in works} - {report.task for report in reports}
        if silent:
            missing = ", ".join(sorted(silent))
            raise StreamsError(f"Batch {number} has no results of task {missing}; it is not committed")
        return outputs, reports

    def _record(self, number: int, states: Mapping[str, TaskState]) -> CommitRecord:
        offsets: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in self._source.positions.items():
            offsets.setdefault(topic, {})[partition] = offset
        before = {} if number == FIRST_BATCH else self._committed.tasks
        token = uuid.uuid4().hex[:16]
        ids = self._source.topic_ids
        return CommitRecord(number, token, offsets, ids, self._changelog_ids, {**before, **states}, self._topology)

    def _commit_record(
        self, outputs: Outputs, record: CommitRecord, offsets: Mapping[Place, int], ranges: list[Range]
    ) -> None:
        self._tried = record.token
        self._committer.commit(outputs, record, offsets, self._source.ask_for_changes(ranges))

    def _moved(self, record: CommitRecord) -> dict[Place, int]:
        before = self._committed.offsets
        return {
            (topic, partition): offset
            for (topic, partition), offset in record.positions().items()
            if before.get(topic, {}).get(partition) != offset
        }

    def _cut(self, planned: Range, reports: list[Report]) -> Range:
        """The range as far as it was read."""
        task = self._layout.task_for(*planned.place)
        cuts = (report.cut.get(planned.topic) for report in reports if report.task == task)
        return planned._replace(end=next((end for end in cuts if end is not None), planned.end))

    def _changelogs(self) -> dict[int, list[str]]:
        """The changelogs by sub-topology."""
        found: dict[int, list[str]] = {}
        for store, group in self._topology.homes.items():
            if store in self._program.changelogs:
                found.setdefault(group, []).append(self._program.changelogs[store])
        return found

    def _state_of(self, task: str) -> TaskState:
        return self._committed.tasks.get(task, NEVER_RUN)

    # --- punctuations ------------------------------------------------------------------------------------------

    def _due_tasks(self) -> list[str]:
        """The tasks with a punctuation that is due."""
        clock = _now()
        return [task for task, due in self._due.items() if due <= clock]

    def _schedule(self, reports: list[Report]) -> None:
        """Remembers when the tasks that ran are to run next."""
        for report in reports:
            if report.state is None or report.state.due is None:
                self._due.pop(report.task, None)
            else:
                self._due[report.task] = report.state.due

    # --- what is told ------------------------------------------------------------------------------------------

    def _tell(self, number: int, reports: list[Report], outputs: int, seconds: float) -> None:
        for report in reports:
            if report.rebuilt:
                told = (report.task, report.rebuilt_records, report.rebuild_seconds)
                logger.info("working copy of task %s rebuilt from the changelogs: %d records in %.1f s", *told)
        rebuilt_records = sum(report.rebuilt_records for report in reports)
        rebuild_seconds = sum(report.rebuild_seconds for report in reports)
        self._stores.update((report.task, report.stores) for report in reports)
        dropped: dict[str, int] = {}
        for report in reports:
            for reason, count in report.dropped.items():
                dropped[reason] = dropped.get(reason, 0) + count
        stores: dict[str, int] = {}
        for counts in self._stores.values():
            for store, count in counts.items():
                stores[store] = stores.get(store, 0) + count
        records = sum(report.records for report in reports)
        self._on_progress(
            BatchProgress(number, records, outputs, dropped, stores, seconds, rebuilt_records, rebuild_seconds)
        )


def _now() -> int:
    return int(time.time() * 1000)
