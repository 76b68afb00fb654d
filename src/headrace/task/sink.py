"""What a sink does: chooses the topic and the partition, serializes, and sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.errors import RecordTooLarge, StreamsError
from headrace.record import RecordContext
from headrace.serdes import Serde
from headrace.task.errors import ErrorDesk, Process, Send
from headrace.task.handlers import OutputRecord
from headrace.topology.nodes import SinkNode


def make_sink(
    node: SinkNode,
    topic: str | None,
    serdes: tuple[Serde[Any], Serde[Any]],
    send: Send,
    desk: ErrorDesk,
    partitions: Callable[[str], int],
    largest: int,
) -> Process:
    """The sink's `process`; `topic` is None where a function of the node's chooses it.

    `largest` is how many bytes of key and value can be sent.
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
        size = len(key or b"") + len(value or b"")
        if size > largest:
            record = OutputRecord(to, key, value, context.timestamp, context.headers, partition)
            error = RecordTooLarge(f"The record has {size:,} bytes, the producer sends at most {largest:,}")
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
        surely_fits = largest // 2

        # The plainest sink, and the most common one, without the calls the others need.
        def process_plainly(key: Any, value: Any, context: RecordContext) -> None:
            try:
                key_bytes = serialize_key(key)
                value_bytes = serialize_value(value)
            except Exception:
                write(topic, key, value, context, None)
            else:
                if value_bytes is not None and len(value_bytes) > surely_fits:
                    deliver(topic, key_bytes, value_bytes, context, None)
                else:
                    send(topic, key_bytes, value_bytes, context.timestamp, context.headers, None)

        return process_plainly

    def process(key: Any, value: Any, context: RecordContext) -> None:
        to = topic if topic is not None else _chosen_topic(node, key, value, context)
        partition = None if partitioner is None else partitioner(to, key, value, partitions(to))
        if partition is not None and partition < 0:
            raise StreamsError(f"Sink {node.name}: the partitioner chose the negative partition {partition}")
        write(to, key, value, context, partition)

    return process


def _chosen_topic(node: SinkNode, key: Any, value: Any, context: RecordContext) -> str:
    assert callable(node.topic)
    topic: object = node.topic(key, value, context)
    if not isinstance(topic, str) or not topic:
        raise StreamsError(f"Sink {node.name}: the function for the topic must return a name, not {topic!r}")
    return topic
