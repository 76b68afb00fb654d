"""What a sink does: chooses the topic and the partition, serializes, and sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.errors import RecordTooLarge, StreamsError
from headrace.operators.operator import Operator
from headrace.record import Headers, RecordContext
from headrace.serdes import Serde
from headrace.task.errors import ErrorDesk, Send
from headrace.task.handlers import OutputRecord
from headrace.topology.nodes import SinkNode

_OVERHEAD = 36
"""What a record takes beside its key, value and headers: lengths, times and flags."""
_HEADER_OVERHEAD = 10
"""What a header takes beside its name and content: two lengths."""


def make_sink(
    node: SinkNode,
    topic: str | None,
    serdes: tuple[Serde[Any], Serde[Any]],
    send: Send,
    desk: ErrorDesk,
    partitions: Callable[[str], int],
    largest: Callable[[str], int],
) -> SinkOperator:
    """The sink; `topic` is None where a function of the node's chooses it.

    `largest` tells how many bytes a record may have that is sent to a topic.
    """
    if topic is not None and node.partitioner is None:
        return PlainSink(node, topic, serdes, send, desk, partitions, largest)
    return SinkOperator(node, topic, serdes, send, desk, partitions, largest)


class SinkOperator(Operator):
    """Writes to the topic, and to the partition, that it is told or that the user's functions choose."""

    __slots__ = (
        "_desk",
        "_largest",
        "_node",
        "_partitioner",
        "_partitions",
        "_topic",
        "is_internal",
        "send",
        "serialize_key",
        "serialize_value",
    )

    def __init__(
        self,
        node: SinkNode,
        topic: str | None,
        serdes: tuple[Serde[Any], Serde[Any]],
        send: Send,
        desk: ErrorDesk,
        partitions: Callable[[str], int],
        largest: Callable[[str], int],
    ) -> None:
        self._node = node
        self._topic = topic
        self.serialize_key: Callable[[Any], bytes | None] = serdes[0].serialize
        self.serialize_value: Callable[[Any], bytes | None] = serdes[1].serialize
        self._partitioner = node.partitioner
        self._partitions = partitions
        self._largest = largest
        self._desk = desk
        self.send = send
        self.is_internal = False
        """Whether only the application itself reads the topic, with the same serdes."""

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        to = self._topic if self._topic is not None else _chosen_topic(self._node, key, value, context)
        partition = None if self._partitioner is None else self._partitioner(to, key, value, self._partitions(to))
        if partition is not None and partition < 0:
            raise StreamsError(f"Sink {self._node.name}: the partitioner chose the negative partition {partition}")
        self.write(to, key, value, context, partition)

    def write(self, to: str, key: Any, value: Any, context: RecordContext, partition: int | None) -> None:
        """Serializes the record and sends it, or asks the handler what to do without it."""
        try:
            key_bytes = self.serialize_key(key)
        except Exception as error:
            self._failed(to, key, value, context, partition, "key", error)
            return
        try:
            value_bytes = self.serialize_value(value)
        except Exception as error:
            self._failed(to, key, value, context, partition, "value", error)
            return
        self.deliver(to, key_bytes, value_bytes, context, partition)

    def deliver(
        self, to: str, key: bytes | None, value: bytes | None, context: RecordContext, partition: int | None
    ) -> None:
        """Sends the record, unless it is too large and the handler does without it."""
        size, most = _size(key, value, context.headers), self._largest(to)
        if size > most:
            record = OutputRecord(to, key, value, context.timestamp, context.headers, partition)
            error = RecordTooLarge(f"The record takes up to {size:,} bytes, the producer sends at most {most:,}")
            if self._desk.does_without(self._node, record, context, error):
                return
        self.send(to, key, value, context.timestamp, context.headers, partition)

    def _failed(
        self,
        to: str,
        key: Any,
        value: Any,
        context: RecordContext,
        partition: int | None,
        origin: str,
        error: Exception,
    ) -> None:
        record = OutputRecord(to, key, value, context.timestamp, context.headers, partition)
        self._desk.not_serialized(self._node, record, context, origin, error)


class PlainSink(SinkOperator):
    """The most common sink, to one topic and the partition of the key, without the calls the others need."""

    __slots__ = ("roomy", "topic")

    tries_direct = True

    def __init__(
        self,
        node: SinkNode,
        topic: str,
        serdes: tuple[Serde[Any], Serde[Any]],
        send: Send,
        desk: ErrorDesk,
        partitions: Callable[[str], int],
        largest: Callable[[str], int],
    ) -> None:
        super().__init__(node, topic, serdes, send, desk, partitions, largest)
        self.topic = topic
        self.roomy = (largest(topic) - _OVERHEAD) // 2
        """What a key and a value may have to surely fit."""

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        try:
            key_bytes = self.serialize_key(key)
            value_bytes = self.serialize_value(value)
        except Exception:
            self.write(self.topic, key, value, context, None)
        else:
            if (
                not context.headers
                and (key_bytes is None or len(key_bytes) <= self.roomy)
                and (value_bytes is None or len(value_bytes) <= self.roomy)
            ):
                self.send(self.topic, key_bytes, value_bytes, context.timestamp, context.headers, None)
            else:
                self.deliver(self.topic, key_bytes, value_bytes, context, None)


def _size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """The bytes that a record takes at most on its way to Kafka, as the producer reckons them."""
    named = sum(len(name.encode()) + len(content or b"") + _HEADER_OVERHEAD for name, content in headers)
    return _OVERHEAD + len(key or b"") + len(value or b"") + named


def _chosen_topic(node: SinkNode, key: Any, value: Any, context: RecordContext) -> str:
    assert callable(node.topic)
    topic: object = node.topic(key, value, context)
    if not isinstance(topic, str) or not topic:
        raise StreamsError(f"Sink {node.name}: the function for the topic must return a name, not {topic!r}")
    return topic
