"""What runs in Spark's Python workers: the tasks of one or all stages that a Spark task was given."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark import Broadcast, cloudpickle

from headrace.config import StreamsConfig
from headrace.kafka.clients import ClientSettings
from headrace.spark.commit_record import NEVER_RUN, TaskState
from headrace.spark.layout import Layout, task_parts
from headrace.spark.parcels import DRIVER, Parcel, ParcelWriter
from headrace.spark.ranges import Range
from headrace.state.boot import boot_name
from headrace.topology import Topology


@dataclass(frozen=True)
class Program:
    """What an application runs, the same in every batch."""

    topology: Topology
    config: StreamsConfig
    settings: ClientSettings
    layout: Layout
    application_id: str
    copies: str
    """The directory of the working copies; none on a cluster, where each executor has its own."""
    id: str
    """Unique to this start of the application."""
    changelogs: Mapping[str, str]
    """By store with a changelog, its topic."""
    skips_lost: bool
    """Whether records that Kafka has deleted before they were read are done without."""


Recent = Mapping[str, Mapping[str, int]]
"""By version, where the changelogs ended that belong to it."""


@dataclass(frozen=True)
class Work:
    """What one task is to do in a batch."""

    task: str
    state: TaskState = NEVER_RUN
    """What it remembers of the last commit."""
    reads: tuple[Range, ...] = ()
    """What it reads from Kafka."""


@dataclass(frozen=True)
class Batch:
    """What all tasks of a batch must know."""

    number: int
    clock: int
    """The wall clock of the batch in milliseconds: the same for all tasks."""
    states: Mapping[str, TaskState]
    """What the tasks of later stages remember of the last commit: who of them has work is known when rows arrive."""
    widths: tuple[int, ...]
    """How many Spark tasks run each stage; one number where a single Spark task runs all of them."""
    recent: Mapping[str, Recent]
    """By task, the versions of its last commits; only where a working copy may be on another machine."""
    most_bytes: int
    """How much a task reads at most of what it was given; the rest is left for the next batch."""
    changelog_ends: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """How far changelog partitions go at least: a broker that tells of an earlier end is not believed."""
    global_ends: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """How far global tables are to be read before anything else."""

    def place_of(self, layout: Layout, stage: int, group: int, partition: int) -> int:
        """The Spark task that runs a task of a later stage."""
        before = layout.stages[stage][: layout.stages[stage].index(group)]
        return (sum(layout.tasks[other] for other in before) + partition) % self.widths[stage]


_programs: dict[str, Program] = {}

_OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Rows are tuples that refer to no one: to look through them for cycles after each 700, as is Python's default, takes
a twelfth of a task's time."""


def program_of(program_id: str, pickled: Broadcast[bytes] | None) -> Program:
    """The program, unpickled once in each worker process; it need not be given where it was remembered."""
    program = _programs.get(program_id)
    if program is None:
        assert pickled is not None
        program = cloudpickle.loads(pickled.value)
        remember_program(program)
    return program


def remember_program(program: Program) -> None:
    """Makes this a worker process of the program, and of no other."""
    _programs.clear()
    _programs[program.id] = program
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    gc.freeze()


def run_all_stages(
    program_id: str,
    pickled: Broadcast[bytes] | None,
    batch: Batch,
    groups: Sequence[Sequence[Work]],
    number: int,
    nothing: Iterable[None],
) -> Iterator[Parcel]:
    """Runs the tasks that have work and those they send rows to, stage by stage, in this Spark task alone.

    `groups` is the work of each Spark task, and `number` is this one's. Spark gives it nothing to read.
    """
    read_to_its_end(nothing)
    program = program_of(program_id, pickled)
    pending: list[Parcel] = []
    for stage in range(len(program.layout.stages)):
        run = StageRun(program, batch, stage)
        pending = list(run.run(groups[number], pending))
        yield from (parcel for parcel in pending if parcel.destination == DRIVER)
        pending = [parcel for parcel in pending if parcel.destination != DRIVER]


def run_first_stage(
    program_id: str,
    pickled: Broadcast[bytes],
    batch: Batch,
    stage: int,
    groups: Sequence[Sequence[Work]],
    number: int,
    nothing: Iterable[None],
) -> Iterator[tuple[int, Parcel]]:
    """Runs tasks of the first stage that has work; what they send goes to the Spark tasks of the next."""
    read_to_its_end(nothing)
    program = program_of(program_id, pickled)
    run = StageRun(program, batch, stage)
    return addressed(program.layout, batch, stage + 1, run.run(groups[number], []))


def read_to_its_end(nothing: Iterable[None]) -> None:
    """Reads what a Spark task was given: a worker process that has not is not used again."""
    for _ in nothing:
        pass


def run_later_stage(
    program_id: str,
    pickled: Broadcast[bytes],
    batch: Batch,
    stage: int,
    works: Iterable[Work],
    number: int,
    parcels: Iterable[tuple[int, Parcel]],
) -> Iterator[tuple[int, Parcel]]:
    """Runs tasks of a later stage; `works` are those that have work of their own, `number` is the Spark task's."""
    program = program_of(program_id, pickled)
    layout = program.layout
    mine = [
        work
        for work in works
        if stage_of(layout, work.task) == stage and batch.place_of(layout, stage, *task_parts(work.task)) == number
    ]
    run = StageRun(program, batch, stage)
    return addressed(layout, batch, stage + 1, run.run(mine, (parcel for _, parcel in parcels)))


def addressed(layout: Layout, batch: Batch, stage: int, parcels: Iterable[Parcel]) -> Iterator[tuple[int, Parcel]]:
    """The parcels with the Spark task of the next stage that they go to; what is for the driver may take any."""
    for turn, parcel in enumerate(parcels):
        if stage >= len(layout.stages):
            yield 0, parcel
        elif parcel.destination in layout.stages[stage]:
            yield batch.place_of(layout, stage, parcel.destination, parcel.partition), parcel
        else:
            yield turn % batch.widths[stage], parcel


def stage_of(layout: Layout, task: str) -> int:
    """The stage that a task runs in."""
    group, _ = task_parts(task)
    return next(number for number, stage in enumerate(layout.stages) if group in stage)


class StageRun:
    """Tasks of one stage in one Spark task."""

    def __init__(self, program: Program, batch: Batch, stage: int) -> None:
        self._program = program
        self._batch = batch
        self._groups = frozenset(program.layout.stages[stage])
        self._received: dict[str, list[Parcel]] = {}

    def run(self, works: Iterable[Work], parcels: Iterable[Parcel]) -> Iterator[Parcel]:
        """Takes the parcels of this stage's tasks and passes the others on, then gives what the tasks send."""
        from headrace.spark.task_run import TaskRun

        for parcel in parcels:
            if parcel.destination in self._groups:
                self._received.setdefault(f"{parcel.destination}_{parcel.partition}", []).append(parcel)
            else:
                yield parcel
        todo = {work.task: work for work in works if task_parts(work.task)[0] in self._groups}
        for task in self._received:
            todo.setdefault(task, Work(task, self._batch.states.get(task, NEVER_RUN)))
        out = ParcelWriter()
        for task in sorted(todo, key=task_parts):
            TaskRun(self._program, self._batch, todo[task], out).run(self._received.pop(task, []))
            yield from out.take()


def copies_directory(program: Program) -> Path:
    """Where this worker keeps working copies: beside those of its host, or, on a cluster, of its executor."""
    if program.copies:
        return Path(program.copies)
    disks = os.environ["SPARK_LOCAL_DIRS"].split(",")
    return Path(disks[0], "headrace", program.application_id)


def host_directory(state_dir: str, application_id: str) -> str:
    """Where working copies of this boot of the machine are: copies of another one may be torn."""
    return os.path.join(state_dir, "copies", application_id, boot_name())
