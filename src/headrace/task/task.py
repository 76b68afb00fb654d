"""The task: takes the records of its partitions in order and runs them through its nodes."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from headrace.config import StreamsConfig
from headrace.errors import HeadraceError, ProcessingFailed, ProductionFailed, StreamsError
from headrace.operators.compiler import compile_operation
from headrace.operators.operator import Forward, Operator
from headrace.processor.punctuation import PunctuationType
from headrace.record import Headers, RecordContext
from headrace.state.environment import Log
from headrace.task.compiled.nodes import CompiledNodes
from headrace.task.compiled.setting import Compilation
from headrace.task.defaults import DefaultSerdes
from headrace.task.errors import ErrorDesk, Send
from headrace.task.node_context import NodeContext
from headrace.task.punctuation import PunctuationQueue, Schedule
from headrace.task.record_queue import (
    Numbered,
    PartitionGroup,
    Raw,
    RawRecord,
    RecordQueue,
    SkippedRecord,
    run_merged,
)
from headrace.task.sink import make_sink
from headrace.task.stores import OrderedStores, TaskStores
from headrace.task.wiring import CalledNodes, Wiring, children_of
from headrace.timestamps import WallclockTimestampExtractor, extractor_of
from headrace.topology.nodes import ProcessorNode, SinkNode, SourceNode
from headrace.topology.stores import StoreSpec
from headrace.topology.topology import Topology

Clock = Callable[[], int]
"""The wall clock in milliseconds."""


class Task:
    """Nodes of a topology at work on one partition, or the whole topology in the test driver."""

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        *,
        application_id: str,
        ordered: OrderedStores,
        send: Send,
        clock: Clock,
        task_id: str = "0_0",
        partition: int = 0,
        nodes: Iterable[str] | None = None,
        partitions: Callable[[str], int] = lambda topic: 1,
        queue_per_topic: bool = False,
        largest_record: Callable[[str], int] = lambda topic: sys.maxsize,
        changelog: Callable[[str], Log] | None = None,
        compilation: Compilation | None = None,
    ) -> None:
        """`largest_record` tells how many bytes a record that a sink sends to a topic may have.

        `changelog` gives the function that writes to a changelog; None: one that sends as the sinks do.
        `compilation` is when nodes are put together to as few functions as there can be; None: as the environment says.
        """
        self.application_id = application_id
        self.task_id = task_id
        self.partition = partition
        self.clock = clock
        self.global_nodes = topology.global_nodes
        self.shared: dict[str, Any] = {}
        self.metadata: dict[str, int] = {}
        """Numbers that operators keep from commit to commit."""
        self.commit_needed = False
        self.commit_requested = False
        self.errors = ErrorDesk(config, task_id, send)
        self._config = config
        self._send = send
        self._partitions = partitions
        self._largest_record = largest_record
        self._internal_topics = frozenset(topology.internal_topics)
        chosen = None if nodes is None else self.global_nodes.union(nodes)
        self._nodes = {name: node for name, node in topology.nodes.items() if chosen is None or name in chosen}
        self._serdes = DefaultSerdes(config)
        self._stores = TaskStores(
            topology.stores, self._nodes, ordered, config, application_id, changelog or self._changelog, self.errors
        )
        self._operators: dict[str, Operator] = {}
        self._contexts: dict[str, NodeContext] = {}
        self._global_queues: dict[str, RecordQueue] = {}
        self._patterns: list[tuple[SourceNode, RecordQueue, Callable[[], RecordQueue]]] = []
        self._queue_per_topic = queue_per_topic
        """Whether each topic that a pattern means has a queue of its own; the driver has one for all of them."""
        self.group = PartitionGroup()
        compilation = compilation or Compilation.from_environment()
        self._wiring: Wiring = CalledNodes(self.errors)
        if compilation is not Compilation.NEVER:
            at_once = compilation is Compilation.ALWAYS
            self._wiring = CompiledNodes(topology, self._nodes, self.errors, at_once=at_once)
        self._global_wiring = CalledNodes(self.errors, self.global_nodes)
        self.add = self.group.add
        """Lets a record wait in its queue; the first one there is deserialized and gets its time at once."""
        self._stream_schedules = PunctuationQueue()
        self._system_schedules = PunctuationQueue()
        self.stream_schedules = self._stream_schedules.waiting
        self._build()
        self._init()

    # --- records -----------------------------------------------------------------------------------------------

    @property
    def buffered(self) -> int:
        """How many records wait."""
        return sum(len(queue) for queue in self.group.queues.values())

    @property
    def stream_time(self) -> int:
        """The largest timestamp of the records processed so far, -1 before the first."""
        return self.group.stream_time

    def queue_of(self, topic: str) -> RecordQueue | None:
        """The queue that takes the records of the topic, by its name or by a source's pattern."""
        queue = self.group.queues.get(topic)
        if queue is not None:
            return queue
        for source, queue, new_queue in self._patterns:
            if source.pattern is not None and source.pattern.fullmatch(topic):
                if self._queue_per_topic:
                    queue = self.group.queues[topic] = new_queue()
                return queue
        return None

    def global_queue_of(self, topic: str) -> RecordQueue | None:
        """The queue of a global table's topic, to pass to `update_global`."""
        return self._global_queues.get(topic)

    def process_one(self) -> bool:
        """Processes the next record; answers whether there was one."""
        taken = self.group.take()
        if taken is None:
            return False
        queue, key, value, context = taken
        if type(context) is not SkippedRecord:
            try:
                queue.process(key, value, context)
            except Exception as error:
                failure = self.failure(queue.node, context, error)
                raise failure from failure.__cause__
        self.commit_needed = True
        return True

    def process_all(self, queue: RecordQueue, topic: str, partition: int, records: Iterable[Numbered]) -> None:
        """Processes the records of one partition, where no other has any.

        As adding them, processing one after the other and punctuating would, in less time.
        """
        self.commit_needed = True
        deque(self._wiring.run(queue)(queue, topic, partition, records, self), maxlen=0)

    def process_merged(
        self, partition: int, records: Mapping[str, Iterable[Numbered]], unread: Container[str] = ()
    ) -> dict[str, int]:
        """Processes the records of several topics, merged by their time; as adding and processing one by one would.

        `unread` are topics of which more is to come: where the records of one end, it stops. Returns the offsets to go
        on from of the topics that have records left.
        """
        self.commit_needed = True
        queues: dict[str, RecordQueue] = {}
        runs: dict[str, Iterator[int]] = {}
        for topic, each in records.items():
            queue = self.queue_of(topic)
            if queue is None:
                raise StreamsError(f"The task does not read topic {topic}")
            queues[topic] = queue
            runs[topic] = self._wiring.run(queue)(queue, topic, partition, each, self)
        return {topic: queues[topic].next_offset for topic in run_merged(runs, unread)}

    def update_global(self, queue: RecordQueue, record: Raw) -> None:
        """Brings a record of a global table's topic into its store."""
        queue.waiting.append(record)
        queue.advance()
        context = queue.head
        queue.head = None
        if context is not None and type(context) is not SkippedRecord:
            try:
                queue.process(queue.key, queue.value, context)
            except Exception as error:
                failure = self.failure(queue.node, context, error)
                raise failure from failure.__cause__
        self._stores.flush_global()

    def failure(self, source: str, context: RecordContext, error: Exception) -> Exception:
        """The error to raise for one that came out of a source's `process`, with its cause."""
        # Kafka Streams passes a failed sink through the handlers of the nodes above it; users look for the sink.
        if isinstance(error, ProcessingFailed) and isinstance(error.__cause__, ProductionFailed):
            return error.__cause__
        if isinstance(error, StreamsError):
            return error
        return self.errors.unguarded(self._nodes[source], context, error)

    # --- punctuation -------------------------------------------------------------------------------------------

    def schedule(
        self,
        node: str,
        interval_ms: int,
        kind: PunctuationType,
        callback: Callable[[int], None],
        start_ms: int | None = None,
    ) -> Schedule:
        """Has a function of a node called at intervals."""
        by_stream_time = kind is PunctuationType.STREAM_TIME
        now = self.stream_time if by_stream_time else self.clock()
        first = start_ms if start_ms is not None else 0 if by_stream_time else now + interval_ms
        schedule = Schedule(node, first, interval_ms, callback)
        if start_ms is not None and start_ms < now:
            schedule.move_on(now)
        return (self._stream_schedules if by_stream_time else self._system_schedules).add(schedule)

    def punctuate_stream_time(self) -> bool:
        """Runs what is due by stream time; answers whether anything was."""
        stream_time = self.group.stream_time
        if stream_time < 0 or self._stream_schedules.is_empty:
            return False
        return self._punctuated(self._stream_schedules.punctuate(stream_time, self._punctuate))

    @property
    def next_system_punctuation(self) -> int | None:
        """When something is due next by the wall clock."""
        return self._system_schedules.next_due

    def punctuate_system_time(self) -> bool:
        """Runs what is due by the wall clock; answers whether anything was."""
        return self._punctuated(self._system_schedules.punctuate(self.clock(), self._punctuate))

    def _punctuated(self, punctuated: bool) -> bool:
        if punctuated:
            self.commit_needed = True
        return punctuated

    def _punctuate(self, node: str, timestamp: int, callback: Callable[[int], None]) -> None:
        context = RecordContext(timestamp)
        host = self._contexts[node]
        host.current = context
        try:
            callback(timestamp)
        except ProcessingFailed as failed:
            raise ProcessingFailed(f"Exception caught while punctuating node {node}: {failed}") from failed.__cause__
        except Exception as error:
            self.errors.not_processed(self._nodes[node], None, context, error)
        finally:
            host.current = None

    # --- commit, state and the end -----------------------------------------------------------------------------

    def commit(self, *, closing: bool = False) -> bool:
        """Flushes the caches; answers whether there was anything to commit. `closing` says that `close` comes next."""
        needed = self.commit_needed
        if needed:
            self._stores.flush(closing=closing)
        self.commit_needed = self.commit_requested = False
        return needed

    def store(self, name: str) -> Any:
        """The typed store of that name."""
        return self._stores[name]

    @property
    def specs(self) -> dict[str, StoreSpec]:
        """The stores of the task as data, with all their serdes."""
        return self._stores.specs

    @property
    def dropped(self) -> Counter[str]:
        """How many records were dropped, by reason."""
        return self.errors.dropped

    def snapshot(self) -> dict[str, Any]:
        """What the task must know, beside its stores, to go on later: times and the operators' numbers."""
        operators = {name: kept for name, operator in self._operators.items() if (kept := operator.snapshot())}
        return {
            "stream_time": self.group.stream_time,
            "partition_times": {topic: queue.partition_time for topic, queue in self.group.queues.items()},
            "metadata": dict(self.metadata),
            "operators": operators,
            "schedules": [queue.snapshot() for queue in (self._stream_schedules, self._system_schedules)],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Goes on where a snapshot was taken."""
        self.group.stream_time = snapshot["stream_time"]
        for topic, time in snapshot["partition_times"].items():
            queue = self.queue_of(topic)
            if queue is not None:
                queue.partition_time = time
        self.metadata.update(snapshot["metadata"])
        for name, state in snapshot["operators"].items():
            operator: Any = self._operators[name]
            operator.restore(state)
        schedules = (self._stream_schedules, self._system_schedules)
        for punctuations, times in zip(schedules, snapshot["schedules"], strict=True):
            punctuations.restore(times)

    def close(self) -> None:
        """Closes the nodes in order, then the stores; an error is raised after the last one."""
        first: Exception | None = None
        for name, operator in self._operators.items():
            try:
                operator.close()
            except Exception as error:
                first = first or _failed("close", name, error)
        self.group.clear()
        self._stores.close()
        if first is not None:
            raise first

    # --- building ----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        children = children_of(self._nodes)
        built: list[tuple[ProcessorNode, Operator]] = []
        for name in reversed(self._nodes):
            node = self._nodes[name]
            wiring = self._global_wiring if name in self.global_nodes else self._wiring
            forward = wiring.edge(children[name])
            if isinstance(node, SourceNode):
                self._add_source(node, forward)
            elif isinstance(node, SinkNode):
                wiring.add(node, self._sink(node))
            else:
                operator = compile_operation(self._serdes.of_operation(node.operation, node))
                operator.forward = forward
                self._contexts[name] = NodeContext(
                    self, node, {child: wiring.edge((child,)) for child in children[name]}
                )
                built.append((node, operator))
                wiring.add(node, operator)
        self._operators = {node.name: operator for node, operator in reversed(built)}
        self.group.queues = dict(reversed(self.group.queues.items()))
        self._patterns.reverse()

    def _add_source(self, node: SourceNode, forward: Forward) -> None:
        key, value = self._serdes.of_node(node)
        is_global = node.name in self.global_nodes
        extractor = extractor_of(node.timestamp_extractor or self._config.default_timestamp_extractor)
        if isinstance(extractor, WallclockTimestampExtractor) and extractor.clock is None:
            extractor = WallclockTimestampExtractor(self.clock)

        def queue() -> RecordQueue:
            return RecordQueue(
                node.name,
                key.deserialize,
                value.deserialize,
                _metadata_timestamp if is_global else extractor,
                self.errors.not_deserialized_globally if is_global else self.errors.not_deserialized,
                self._skip,
                forward,
            )

        queues = self._global_queues if is_global else self.group.queues
        if node.pattern is not None:
            queues[node.pattern.pattern] = queue()
            self._patterns.append((node, queues[node.pattern.pattern], queue))
        for topic in reversed(node.topics):
            queues[self.topic_name(topic)] = queue()

    def _sink(self, node: SinkNode) -> Operator:
        topic = None if callable(node.topic) else self.topic_name(node.topic)
        serdes = self._serdes.of_node(node)
        sink = make_sink(node, topic, serdes, self._send, self.errors, self._partitions, self._largest_record)
        sink.is_internal = node.topic in self._internal_topics
        return sink

    def _changelog(self, topic: str) -> Log:
        send, partition, clock = self._send, self.partition, self.clock

        def log(key: bytes, value: bytes | None, timestamp: int | None, headers: Headers) -> None:
            send(topic, key, value, clock() if timestamp is None else timestamp, headers, partition)

        return log

    def topic_name(self, topic: str) -> str:
        """The name of the topic in Kafka: internal ones begin with the application's id."""
        return f"{self.application_id}-{topic}" if topic in self._internal_topics else topic

    def _skip(self, node: str, record: RawRecord, reason: str) -> None:
        context = RecordContext(record.timestamp, record.headers, record.topic, record.partition, record.offset)
        self.errors.drop(node, context, reason)

    def _init(self) -> None:
        for name, operator in self._operators.items():
            context = self._contexts[name]
            context.current = RecordContext(self.clock())
            try:
                operator.init(context)
            except HeadraceError:
                raise
            except Exception as error:
                raise _failed("initialize", name, error) from error
            finally:
                context.current = None
        self._stream_schedules.begin()
        self._system_schedules.begin()


def _metadata_timestamp(record: Any, partition_time: int) -> int:
    timestamp: int = record.timestamp
    return timestamp


def _failed(verb: str, node: str, error: Exception) -> Exception:
    failed = ProcessingFailed(f"Failed to {verb} node {node}: {type(error).__name__}: {error}")
    failed.__cause__ = error
    return failed
