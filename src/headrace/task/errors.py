"""What a task does with errors: it asks the handlers, sends dead letters, and counts what is dropped."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from headrace.config import StreamsConfig
from headrace.errors import DeserializationFailed, ProcessingFailed, ProductionFailed, RecordTooLarge
from headrace.record import Headers, Record, RecordContext
from headrace.task.handlers import (
    FAIL,
    RETRY,
    ErrorContext,
    Handler,
    LogAndContinue,
    OutputRecord,
    Response,
    ask,
    handler_of,
)
from headrace.task.record_queue import RawRecord
from headrace.timestamps import ConsumedRecord
from headrace.topology.nodes import Node

logger = logging.getLogger(__name__)

Send = Callable[[str, "bytes | None", "bytes | None", int, Headers, "int | None"], None]
"""The output port: topic, key, value, timestamp, headers, partition (None: as the key says)."""

Process = Callable[[Any, Any, RecordContext], None]


class ErrorDesk:
    """Asks the application's handlers and does what they say."""

    def __init__(self, config: StreamsConfig, task_id: str, send: Send) -> None:
        self._task_id = task_id
        self._send = send
        self._dead_letter_topic = config.dead_letter_queue_topic
        self._deserialization = handler_of(
            config.deserialization_exception_handler, "deserialization_exception_handler"
        )
        self._processing = handler_of(config.processing_exception_handler, "processing_exception_handler")
        self._production = handler_of(config.production_exception_handler, "production_exception_handler")
        self.dropped: Counter[str] = Counter()
        """How many records were dropped, by reason."""

    def drop(self, node: str, context: RecordContext, reason: str) -> None:
        """Counts and logs a dropped record."""
        self.dropped[reason] += 1
        logger.warning(
            "Skipping record due to %s. node=[%s] topic=[%s] partition=[%s] offset=[%s]",
            reason,
            node,
            context.topic,
            context.partition,
            context.offset,
        )

    # --- deserialization ---------------------------------------------------------------------------------------

    def not_deserialized(self, node: str, raw: RawRecord, error: Exception) -> None:
        """A record of a source could not be read."""
        self._not_deserialized(self._deserialization, self._dead_letter_topic, node, raw, error)

    def not_deserialized_globally(self, node: str, raw: RawRecord, error: Exception) -> None:
        """A record of a global table could not be read: it is skipped, whatever the configuration."""
        self._not_deserialized(LogAndContinue(), None, node, raw, error)

    def _not_deserialized(
        self, handler: Handler, dead_letter_topic: str | None, node: str, raw: RawRecord, error: Exception
    ) -> None:
        context = ErrorContext(
            raw.topic,
            raw.partition,
            raw.offset,
            raw.headers,
            node,
            self._task_id,
            raw.timestamp,
            raw.key,
            raw.value,
            dead_letter_topic,
        )
        record = ConsumedRecord(raw.key, raw.value, raw.timestamp, raw.headers, raw.topic, raw.partition, raw.offset)
        where = f"node {node}, topic {raw.topic}, partition {raw.partition}, offset {raw.offset}"
        try:
            response = ask(handler, context, record, error)
        except Exception as fatal:
            raise DeserializationFailed(
                f"Fatal user code error in deserialization_exception_handler: {where}: {fatal}"
            ) from fatal
        self._send_dead_letters(response)
        if response.result is FAIL:
            raise DeserializationFailed(
                f"A record could not be deserialized: {where}: {error}. To go on without such records, set "
                "deserialization_exception_handler to LogAndContinue."
            ) from error
        self.dropped["deserialization error"] += 1

    # --- processing --------------------------------------------------------------------------------------------

    def guard(self, node: Node, process: Process) -> Process:
        """The node's `process` with the handler around it. Errors of nodes below that were handled pass through."""
        failed = self.failed

        def guarded(key: Any, value: Any, context: RecordContext) -> None:
            try:
                process(key, value, context)
            except ProcessingFailed:
                raise
            except Exception as error:
                failed(node, key, value, context, error)

        return guarded

    def failed(self, node: Node, key: Any, value: Any, context: RecordContext, error: Exception) -> None:
        """A node raised an error for a record."""
        self.not_processed(node, Record(key, value, context.timestamp, context.headers), context, error)

    def not_processed(
        self, node: Node, record: Record[Any, Any] | None, context: RecordContext, error: Exception
    ) -> None:
        """A node raised an error; `record` is None in a punctuation."""
        where = self._where(node, context)
        try:
            response = ask(self._processing, self._context_of(node.name, context), record, error)
        except Exception as fatal:
            raise ProcessingFailed(
                f"Fatal user code error in processing_exception_handler: {where}: {fatal}"
            ) from fatal
        self._send_dead_letters(response)
        if response.result is FAIL:
            kind = "Exception caught in process" if record is not None else "Exception caught while punctuating"
            raise ProcessingFailed(
                f"{kind}: {where}: {type(error).__name__}: {error}. To go on without such records, set "
                "processing_exception_handler to LogAndContinue."
            ) from error
        self.dropped["processing error"] += 1

    def unguarded(self, node: Node, context: RecordContext, error: Exception) -> ProcessingFailed:
        """The error to raise where no handler is asked."""
        failed = ProcessingFailed(
            f"Exception caught in process: {self._where(node, context)}: {type(error).__name__}: {error}"
        )
        failed.__cause__ = error
        return failed

    # --- production --------------------------------------------------------------------------------------------

    def not_serialized(
        self, node: Node, record: OutputRecord, context: RecordContext, origin: str, error: Exception
    ) -> None:
        """The key or the value of an output record could not be serialized."""
        if self._stops_production(node, record, context, origin, error):
            where = f"topic {record.topic}: {self._where(node, context)}"
            part = record.key if origin == "key" else record.value
            raise ProductionFailed(
                f"The {origin} of a record ({type(part).__name__}) could not be serialized for {where}: {error}. "
                f"Check the {origin} serde of the sink, or set production_exception_handler to LogAndContinue."
            ) from error
        self.dropped["serialization error"] += 1

    def does_without(self, node: Node, record: OutputRecord, context: RecordContext, error: RecordTooLarge) -> bool:
        """Whether a record that the producer would refuse is dropped; if not, it is sent, and refused."""
        if self._stops_production(node, record, context, None, error):
            return False
        self.dropped["record too large"] += 1
        return True

    def _stops_production(
        self, node: Node, record: OutputRecord, context: RecordContext, origin: str | None, error: Exception
    ) -> bool:
        try:
            response = ask(self._production, self._context_of(node.name, context, origin), record, error)
        except Exception as fatal:
            where = f"topic {record.topic}: {self._where(node, context)}"
            raise ProcessingFailed(
                f"Fatal user code error in production_exception_handler: {where}: {fatal}"
            ) from fatal
        self._send_dead_letters(response)
        return response.result in (FAIL, RETRY)

    # -----------------------------------------------------------------------------------------------------------

    def _context_of(self, node: str, context: RecordContext, origin: str | None = None) -> ErrorContext:
        return ErrorContext(
            context.topic,
            context.partition,
            context.offset,
            context.headers,
            node,
            self._task_id,
            context.timestamp,
            context.raw_key,
            context.raw_value,
            self._dead_letter_topic,
            origin,
        )

    def _where(self, node: Node, context: RecordContext) -> str:
        line = f" ({node.location})" if node.location else ""
        source = (
            "no input record"
            if context.topic is None
            else f"topic {context.topic}, partition {context.partition}, offset {context.offset}"
        )
        return f"task {self._task_id}, node {node.name}{line}, {source}"

    def _send_dead_letters(self, response: Response) -> None:
        for letter in response.dead_letter_records:
            self._send(
                letter.topic, letter.key, letter.value, letter.timestamp, tuple(letter.headers), letter.partition
            )
