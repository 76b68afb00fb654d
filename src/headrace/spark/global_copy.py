"""Global tables: one copy for all tasks of a host, read from their topics as far as a batch asks for.

The copy is a cache of topics that belong to others. It carries the ids of the topics, how far it has read them and when
it was last up to date: one that may have missed a tombstone is thrown away.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.kafka.topics import Topics
from headrace.private_files import make_private_directory
from headrace.record import Headers
from headrace.spark.ranges import Range
from headrace.spark.reader import KafkaReader
from headrace.state.lmdb_store import LmdbStores
from headrace.state.overlay import OverlayStore, released
from headrace.task.task import Task

if TYPE_CHECKING:
    from headrace.spark.worker import Program

_STATE = b"\x00state"
_MAP_SIZE = 1 << 40
_LONGEST_ABSENCE_MS = 3_600_000
"""How long a copy may have been left alone: far less than tombstones stay in a topic (delete.retention.ms, a day)."""
_RECORDS_AT_ONCE = 50_000


class _State(msgspec.Struct):
    """What a copy is a copy of."""

    topic_ids: dict[str, str]
    stores: list[str]
    positions: dict[str, dict[int, int]]
    caught_up: int
    """The wall clock, in milliseconds, when it was last up to date."""


class GlobalCopy:
    """The global tables of an application on one host."""

    def __init__(self, program: Program, directory: Path) -> None:
        self._program = program
        make_private_directory(directory)
        self._stores = LmdbStores(str(directory), _MAP_SIZE)
        self._stores.environment.reader_check()
        self._names = [name for name, spec in program.topology.stores.items() if spec.is_global]
        for name in self._names:
            self._stores.database(name)

    @classmethod
    def on_this_host(cls, program: Program, directory: Path) -> GlobalCopy:
        """The copy, opened once by each worker process."""
        found = _opened.get(program.id)
        if found is None:
            _opened.clear()
            found = _opened[program.id] = cls(program, directory / "global")
        return found

    @contextmanager
    def read_to(
        self, ends: Mapping[tuple[str, int], int], clock: int, reader: Callable[[], KafkaReader]
    ) -> Iterator[Mapping[str, OverlayStore]]:
        """The tables with all that their topics have before these offsets."""
        environment = self._stores.environment
        with environment.begin() as transaction:
            is_behind = self._behind(self._state(transaction), ends, clock)
        if is_behind:
            with environment.begin(write=True) as transaction:
                self._catch_up(transaction, ends, clock, reader)
        with environment.begin() as transaction:
            overlays = {name: OverlayStore(self._stores.reader(transaction, name)) for name in self._names}
            with released(overlays):
                yield overlays

    def _behind(self, state: _State | None, ends: Mapping[tuple[str, int], int], clock: int) -> bool:
        if state is None or clock - state.caught_up > _LONGEST_ABSENCE_MS / 2:
            return True
        return any(state.positions.get(topic, {}).get(number, 0) < end for (topic, number), end in ends.items())

    def _catch_up(
        self, transaction: Any, ends: Mapping[tuple[str, int], int], clock: int, reader: Callable[[], KafkaReader]
    ) -> None:
        state = self._state(transaction)
        if state is not None and not self._behind(state, ends, clock):
            return  # another worker of this host was faster
        topics = Topics(self._program.settings)
        ids = topics.ids({topic for topic, _ in ends})
        if state is None or not self._may_go_on(state, ids, ends, clock):
            self._stores.clear(transaction)
            state = _State(ids, self._names, {}, clock)
        unread = [place for place in ends if place[1] not in state.positions.get(place[0], {})]
        beginnings = topics.beginnings(unread)
        for place, end in ends.items():
            topic, number = place
            start = state.positions.get(topic, {}).get(number, beginnings.get(place, 0))
            if start < end:
                self._take(transaction, Range(topic, number, start, end), reader())
            state.positions.setdefault(topic, {})[number] = max(start, end)
        state.caught_up = clock
        self._stores.put_fact(transaction, _STATE, msgspec.msgpack.encode(state))

    def _may_go_on(
        self, state: _State, ids: Mapping[str, str], ends: Mapping[tuple[str, int], int], clock: int
    ) -> bool:
        """Whether what has been read so far still stands."""
        return (
            state.topic_ids == ids
            and state.stores == self._names
            and 0 <= clock - state.caught_up <= _LONGEST_ABSENCE_MS
            and all(offset <= ends.get((t, n), 0) for t, by in state.positions.items() for n, offset in by.items())
        )

    def _take(self, transaction: Any, wanted: Range, reader: KafkaReader) -> None:
        """Brings the records of a range into the tables."""
        pieces = reader.read(wanted)
        while True:
            overlays = {name: OverlayStore(self._stores.reader(transaction, name)) for name in self._names}
            count = self._update(overlays, wanted, pieces)
            changes = {name: replace(each.changes(), facts=each.facts) for name, each in overlays.items()}
            self._stores.apply(transaction, changes)
            if not count:
                return

    def _update(self, overlays: Mapping[str, OverlayStore], wanted: Range, pieces: Iterator[Any]) -> int:
        """Has the nodes of the global tables process some records; how many there were."""
        program = self._program
        task = Task(
            program.topology,
            program.config,
            application_id=program.application_id,
            ordered=lambda spec: overlays[spec.name],
            send=_send_nothing,
            clock=lambda: int(time.time() * 1000),
            task_id="global",
            nodes=(),
        )
        queue = task.global_queue_of(wanted.topic)
        assert queue is not None
        count = 0
        for row in chain.from_iterable(pieces):
            task.update_global(queue, (wanted.topic, wanted.partition, *row))
            count += 1
            if count >= _RECORDS_AT_ONCE:
                break
        task.close()
        return count

    def _state(self, transaction: Any) -> _State | None:
        packed = self._stores.fact(transaction, _STATE)
        return None if packed is None else msgspec.msgpack.decode(packed, type=_State)


_opened: dict[str, GlobalCopy] = {}
"""By program, the copy that this worker process has open."""


def _send_nothing(
    topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers, partition: int | None
) -> None:
    """Global tables send nothing."""
