"""What a sink does: chooses the topic and the partition, serializes, and sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.errors import RecordTooLarge, StreamsError
from headrace.record import Headers, RecordContext
from headrace.serdes import Serde
from headrace.task.errors import ErrorDesk, Process, Send
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
) -> Process:
    """The sink's `process`; `topic` is None where a function of the node's chooses it.

    `largest` tells how many bytes a record may have that is sent to a topic.
    """
    serialize_key: Callable[[Any], bytes | None] = serdes[0].serialize
    serialize_value: Callable[[Any], bytes | None] = serdes[1].serialize
    partitioner = node.partitioner

    def failed(
        to: str, key: Any, value: Any, context: RecordContext, partition: int | None, origin: str, error: Exception
    ) -> None:
        record = OutputRecord(to, key, value, context.timestamp, context.headers, partition)
        desk.not_serialized(node, record, context, origin, error)

    def deliver(to: str, key: bytes | None, value: bytes | None, context: RecordContext, partition: int | None) -> None:
        size, most = _size(key, value, context.headers), largest(to)
        if size > most:
            record = OutputRecord(to, key, value, context.timestamp, context.headers, partition)
            error = RecordTooLarge(f"The record takes up to {size:,} bytes, the producer sends at most {most:,}")
            if desk.does_without(node, record, context, error):
                return
        send(to, key, value, context.timestamp, context.headers, partition)

    def write(to: str, key: Any, value: Any, context: RecordContext, partition: int | None) -> None:
        try:
            key_bytes = serialize_key(key)
        except Exception as error:
            failed(to, key, value, context, partition, "key", error)
            return
        try:
            value_bytes = serialize_value(value)
        except Exception as error:
            failed(to, key, value, context, partition, "value", error)
            return
        deliver(to, key_bytes, value_bytes, context, partition)

    if topic is not None and partitioner is None:
        roomy = (largest(topic) - _OVERHEAD) // 2

        # The plainest sink, and the most common one, without the calls the others need.
        def process_plainly(key: Any, value: Any, context: RecordContext) -> None:
            try:
                key_bytes = serialize_key(key)
                value_bytes = serialize_value(value)
            except Exception:
                write(topic, key, value, context, None)
            else:
                surely_fits = (
                    (value_bytes is None or len(value_bytes) <= roomy)
                    and (key_bytes is None or len(key_bytes) <= roomy)
                    and not context.headers
                )
                if surely_fits:
                    send(topic, key_bytes, value_bytes, context.timestamp, context.headers, None)
                else:
                    deliver(topic, key_bytes, value_bytes, context, None)

        return process_plainly

    def process(key: Any, value: Any, context: RecordContext) -> None:
        to = topic if topic is not None else _chosen_topic(node, key, value, context)
        partition = None if partitioner is None else partitioner(to, key, value, partitions(to))
        if partition is not None and partition < 0:
            raise StreamsError(f"Sink {node.name}: the partitioner chose the negative partition {partition}")
        write(to, key, value, context, partition)

    return process


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
