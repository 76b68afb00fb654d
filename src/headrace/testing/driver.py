"""TopologyTestDriver: runs a topology in memory, record by record, as one task."""

from __future__ import annotations

import re
import time
from collections import Counter, deque
from datetime import timedelta
from types import TracebackType
from typing import Any

from headrace.config import StreamsConfig
from headrace.duration import to_millis
from headrace.errors import ConfigError, StreamsError, UnknownStoreError, UnknownTopicError
from headrace.record import Headers, Record, RecordContext
from headrace.serdes import Serde, Serdes
from headrace.state.facade import plain
from headrace.state.memory import MemoryStore
from headrace.task.defaults import DefaultSerdes
from headrace.task.handlers import LogAndContinue, LogAndFail
from headrace.task.record_queue import RecordQueue
from headrace.task.task import Task
from headrace.testing.state import DriverState
from headrace.testing.topics import Pipe, Produced, TestInputTopic, TestOutputTopic
from headrace.topology.nodes import SinkNode, SourceNode
from headrace.topology.stores import StoreKind
from headrace.topology.topology import Topology

APPLICATION_ID = "dummy-topology-test-driver-app-id"
PARTITION = 0

EACH_RECORD = "each-record"
MANUAL = "manual"

_CHANGELOG = re.compile(r"(.+)-changelog")
_PLAIN_KINDS = (StoreKind.KEY_VALUE, StoreKind.TIMESTAMPED_KEY_VALUE)
_BUILT_IN_HANDLERS = (LogAndFail, LogAndContinue)


class _Route:
    """Where the records of a topic go: into a queue of the task, into a global table, or nowhere."""

    __slots__ = ("global_queue", "offsets", "output", "queue")

    def __init__(self, queue: RecordQueue | None, global_queue: RecordQueue | None, offsets: list[int]) -> None:
        self.queue = queue
        self.global_queue = global_queue
        self.offsets = offsets
        """The next offset, shared by the topics of a pattern."""
        self.output: deque[Produced] = deque()
        """What was written to the topic and not read yet."""

    @property
    def is_read(self) -> bool:
        """Whether the topology reads the topic."""
        return self.queue is not None or self.global_queue is not None


class TopologyTestDriver:
    """Runs a topology in memory: each record piped in goes all the way through before `pipe` returns.

    Caches are flushed after each record; with `commit="manual"` when `commit()` is called, and with a number
    after as many records. What results for internal topics, or for topics that the topology reads, goes in again.
    """

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig | None = None,
        *,
        initial_wall_clock: int | None = None,
        commit: str | int | None = EACH_RECORD,
        state: DriverState | None = None,
    ) -> None:
        """`state` goes on where another driver of the same topology stood."""
        self._topology = topology.freeze()
        self._config = config or StreamsConfig()
        self._commit_every = _records_per_commit(commit)
        self._since_commit = 0
        self._now = int(time.time() * 1000) if initial_wall_clock is None else initial_wall_clock
        self._sent: list[Produced] = []
        self._produced: list[Produced] = []
        self._routes: dict[str, _Route] = {}
        self._offsets: dict[RecordQueue, list[int]] = {}
        self._is_open = True
        self._stores: dict[str, MemoryStore] = {}
        if state is not None:
            self._stores.update((name, store.copy()) for name, store in state.stores.items())
        self._task = Task(
            self._topology,
            self._config,
            application_id=self.application_id,
            ordered=lambda spec: self._stores.setdefault(spec.name, MemoryStore()),
            send=self._send,
            clock=lambda: self._now,
            partition=PARTITION,
        )
        self._capture()
        if state is not None:
            self._go_on_from(state)

    @property
    def application_id(self) -> str:
        """The application's id, which the names of internal topics begin with."""
        return self._config.application_id or APPLICATION_ID

    # --- topics ------------------------------------------------------------------------------------------------

    def input_topic(
        self,
        name: str,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        *,
        start: int | None = None,
        auto_advance: timedelta = timedelta(0),
    ) -> TestInputTopic:
        """A topic to pipe records into, by default with the serdes of the source that reads it.

        Records without a timestamp have the time `start`, by default the wall clock, and `auto_advance` more each.
        """
        route = self._route(name)
        queue = route.queue if route.queue is not None else route.global_queue
        if queue is None:
            known = ", ".join(self._source_topics()) or "none"
            raise UnknownTopicError(f"Unknown topic: {name}. The topology reads: {known}.")
        source = self._topology.nodes[queue.node]
        assert isinstance(source, SourceNode)
        default_key, default_value = DefaultSerdes(self._config).of_node(source)
        first = self._now if start is None else start
        return TestInputTopic(
            name, key or default_key, value or default_value, self._pipe_into(name, route), first, auto_advance
        )

    def output_topic(
        self, name: str, key: Serde[Any] | None = None, value: Serde[Any] | None = None
    ) -> TestOutputTopic:
        """A topic to read results from, by default with the serdes of the sink that writes it.

        Internal topics have their full names, such as `<application_id>-<store>-changelog`.
        """
        self._check_output(name)
        default_key, default_value = self._output_serdes(name)
        return TestOutputTopic(name, key or default_key, value or default_value, self._route(name).output)

    def produced(self) -> list[tuple[str, Record[bytes | None, bytes | None]]]:
        """Every record written to any topic so far, in order, with keys and values as bytes."""
        return [
            (topic, Record(key, value, timestamp, headers))
            for topic, key, value, timestamp, headers, _ in self._produced
        ]

    def produced_topics(self) -> set[str]:
        """The topics that were written to so far."""
        return {record[0] for record in self._produced}

    # --- time, commits, stores ---------------------------------------------------------------------------------

    def advance_wall_clock(self, advance: timedelta) -> None:
        """Moves the wall clock, and runs the punctuations that are due."""
        self._check_open()
        self._now += to_millis(advance, "advance_wall_clock")
        self._task.punctuate_system_time()
        if self._commit_every == 1 or self._task.commit_requested:
            self._task.commit()
        self._complete_work()

    def commit(self) -> None:
        """Commits: the caches are flushed, and what comes out goes on its way."""
        self._check_open()
        self._since_commit = 0
        self._task.commit()
        self._complete_work()

    def store(self, name: str) -> Any:
        """The store of that name, to read and to write."""
        spec = self._task.specs.get(name)
        if spec is None:
            known = ", ".join(self._task.specs) or "none"
            raise UnknownStoreError(f"There is no store {name}. The topology's stores: {known}.")
        return plain(self._task.store(name), spec, _outside_of_records)

    def state(self) -> DriverState:
        """Commits, and tells where the driver stands; what it does from then on does not change that."""
        self.commit()
        return DriverState(
            {name: store.copy() for name, store in self._stores.items()},
            self._task.snapshot(),
            {topic: route.offsets[0] for topic, route in self._routes.items() if route.is_read},
            self._now,
        )

    @property
    def wall_clock(self) -> int:
        """The wall clock in milliseconds."""
        return self._now

    @property
    def dropped_records(self) -> Counter[str]:
        """How many records were dropped, by reason; `.total()` is Kafka Streams' figure."""
        return self._task.dropped

    # --- the end -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Commits what is left and closes the processors; results can still be read."""
        if not self._is_open:
            return
        try:
            self._task.commit()
            self._complete_work()
        finally:
            self._is_open = False
            self._task.close()
            self._capture()

    def __enter__(self) -> TopologyTestDriver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif self._is_open:
            self._is_open = False
            self._task.close()

    # --- the work ----------------------------------------------------------------------------------------------

    def _pipe_into(self, topic: str, route: _Route) -> Pipe:
        task, queue, offsets = self._task, route.queue, route.offsets

        def pipe(key: bytes | None, value: bytes | None, timestamp: int, headers: Headers) -> None:
            if not self._is_open:
                self._check_open()
            if queue is not None:
                offset = offsets[0]
                offsets[0] = offset + 1
                task.add(queue, (topic, PARTITION, offset, timestamp, key, value, headers))
                self._complete_work()
            if route.global_queue is not None:
                self._update_global(route.global_queue, offsets, (topic, key, value, timestamp, headers, None))

        return pipe

    def _update_global(self, queue: RecordQueue, offsets: list[int], record: Produced) -> None:
        topic, key, value, timestamp, headers, _ = record
        offset = offsets[0]
        offsets[0] = offset + 1
        self._task.update_global(queue, (topic, PARTITION, offset, timestamp, key, value, headers))

    def _complete_work(self) -> None:
        sent = self._sent
        if sent:
            self._capture()
        task = self._task
        commits_each = self._commit_every == 1
        while task.process_one():
            task.punctuate_stream_time()
            if commits_each:
                task.commit()
            else:
                self._commit_if_due()
            if sent:
                self._capture()

    def _commit_if_due(self) -> None:
        self._since_commit += 1
        if self._since_commit == self._commit_every or self._task.commit_requested:
            self._since_commit = 0
            self._task.commit()

    def _send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        partition: int | None,
    ) -> None:
        self._sent.append((topic, key, value, timestamp, headers, partition))

    def _capture(self) -> None:
        """Files what was sent, and lets in again what is for topics that the topology reads."""
        sent = self._sent.copy()
        self._sent.clear()
        self._produced += sent
        for record in sent:
            topic = record[0]
            route = self._routes.get(topic) or self._route(topic)
            route.output.append(record)
            if route.queue is not None and self._is_open:
                _, key, value, timestamp, headers, _ = record
                offset = route.offsets[0]
                route.offsets[0] = offset + 1
                self._task.add(route.queue, (topic, PARTITION, offset, timestamp, key, value, headers))
            if route.global_queue is not None and self._is_open:
                self._update_global(route.global_queue, route.offsets, record)

    def _route(self, topic: str) -> _Route:
        route = self._routes.get(topic)
        if route is None:
            queue, global_queue = self._task.queue_of(topic), self._task.global_queue_of(topic)
            reader = queue if queue is not None else global_queue
            offsets = [0] if reader is None else self._offsets.setdefault(reader, [0])
            route = self._routes[topic] = _Route(queue, global_queue, offsets)
        return route

    def _go_on_from(self, state: DriverState) -> None:
        self._now = state.wall_clock
        self._task.restore(state.task)
        for topic, offset in state.offsets.items():
            self._route(topic).offsets[0] = offset

    # --- names and serdes --------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if not self._is_open:
            raise StreamsError("The TopologyTestDriver is closed")

    def _source_topics(self) -> list[str]:
        sources = (node for node in self._topology.nodes.values() if isinstance(node, SourceNode))
        names: list[str] = []
        for source in sources:
            names += (self._task.topic_name(topic) for topic in source.topics)
            if source.pattern is not None:
                names.append(f"pattern {source.pattern.pattern}")
        return names

    def _written_topics(self) -> list[str] | None:
        """The topics that the topology can write to, None where that is known only at run time."""
        sinks = [node for node in self._topology.nodes.values() if isinstance(node, SinkNode)]
        handlers = (
            self._config.deserialization_exception_handler,
            self._config.processing_exception_handler,
            self._config.production_exception_handler,
        )
        if any(callable(sink.topic) for sink in sinks):
            return None
        if not all(handler in _BUILT_IN_HANDLERS or type(handler) in _BUILT_IN_HANDLERS for handler in handlers):
            return None
        names = [self._task.topic_name(sink.topic) for sink in sinks if isinstance(sink.topic, str)]
        names += (f"{self.application_id}-{name}-changelog" for name in self._task.specs)
        if self._config.dead_letter_queue_topic is not None:
            names.append(self._config.dead_letter_queue_topic)
        return names

    def _check_output(self, name: str) -> None:
        written = self._written_topics()
        if (
            written is None
            or name in written
            or (name in self._routes and self._routes[name].output)
            or name in self._source_topics()
        ):
            return
        raise UnknownTopicError(
            f"Unknown topic: {name}. The topology writes to: {', '.join(dict.fromkeys(written)) or 'none'}."
        )

    def _output_serdes(self, name: str) -> tuple[Serde[Any], Serde[Any]]:
        serdes = DefaultSerdes(self._config)
        for node in self._topology.nodes.values():
            if isinstance(node, SinkNode) and isinstance(node.topic, str) and self._task.topic_name(node.topic) == name:
                return serdes.of_node(node)
        matched = _CHANGELOG.fullmatch(name.removeprefix(f"{self.application_id}-"))
        spec = self._task.specs.get(matched[1]) if matched is not None else None
        if spec is not None:
            is_plain = spec.kind in _PLAIN_KINDS and spec.key is not None and spec.value is not None
            return (spec.key, spec.value) if is_plain else (Serdes.bytes(), Serdes.bytes())  # type: ignore[return-value]
        if name == self._config.dead_letter_queue_topic:
            return Serdes.bytes(), Serdes.bytes()
        return serdes.find(None, "key") or Serdes.bytes(), serdes.find(None, "value") or Serdes.bytes()


def _outside_of_records() -> RecordContext:
    return RecordContext(0)


def _records_per_commit(commit: str | int | None) -> int:
    """After how many records to commit; 0 for by hand alone."""
    if commit is None or commit == EACH_RECORD:
        return 1
    if commit == MANUAL:
        return 0
    if isinstance(commit, int) and not isinstance(commit, bool) and commit > 0:
        return commit
    raise ConfigError(f'commit must be "{EACH_RECORD}", "{MANUAL}" or a number of records, not {commit!r}')
