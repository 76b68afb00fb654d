"""What happens after an error: handlers that stop or go on, and dead letters.

A handler is a function `(context, record, exception)` that answers `FAIL`, `CONTINUE`, or a `Response`
with dead letter records of its own.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from headrace.errors import ConfigError
from headrace.record import NO_HEADERS, Headers

logger = logging.getLogger(__name__)


class HandlerResponse(Enum):
    """Whether to stop or to go on without the record."""

    FAIL = "fail"
    CONTINUE = "continue"
    RETRY = "retry"
    """Only where a record was not produced for a passing reason; anywhere else it stops as well."""


FAIL = HandlerResponse.FAIL
CONTINUE = HandlerResponse.CONTINUE
RETRY = HandlerResponse.RETRY


class OutputRecord(NamedTuple):
    """A record on its way to a topic: bytes, or before that what could not be serialized."""

    topic: str
    key: Any
    value: Any
    timestamp: int
    headers: Headers = NO_HEADERS
    partition: int | None = None


@dataclass(frozen=True)
class Response:
    """A handler's answer with records for dead letter topics."""

    result: HandlerResponse
    dead_letter_records: Sequence[OutputRecord] = ()

    @classmethod
    def fail(cls, dead_letter_records: Sequence[OutputRecord] = ()) -> Response:
        """Stop."""
        return cls(FAIL, dead_letter_records)

    @classmethod
    def resume(cls, dead_letter_records: Sequence[OutputRecord] = ()) -> Response:
        """Go on without the record."""
        return cls(CONTINUE, dead_letter_records)


@dataclass(frozen=True)
class ErrorContext:
    """Where an error happened: the input record that led to it, the node and the task."""

    topic: str | None
    partition: int
    offset: int
    headers: Headers
    node: str
    task_id: str
    timestamp: int
    raw_key: bytes | None
    raw_value: bytes | None
    dead_letter_queue_topic: str | None = None
    """The configured dead letter topic."""
    origin: str | None = None
    """What could not be serialized: "key" or "value"; None for other errors."""


Handler = Callable[[ErrorContext, Any, Exception], "HandlerResponse | Response"]


class LogAndFail:
    """Logs the error and stops; with a dead letter topic the record goes there too."""

    def __call__(self, context: ErrorContext, record: Any, exception: Exception) -> Response:
        _log(logging.ERROR, context, exception)
        return Response.fail(dead_letters(context, exception))


class LogAndContinue:
    """Logs the error and goes on without the record; with a dead letter topic the record goes there."""

    def __call__(self, context: ErrorContext, record: Any, exception: Exception) -> Response:
        _log(logging.WARNING, context, exception)
        return Response.resume(dead_letters(context, exception))


def _log(level: int, context: ErrorContext, exception: Exception) -> None:
    logger.log(
        level,
        "Error at node %s, task %s: source topic %s, partition %d, offset %d",
        context.node,
        context.task_id,
        context.topic,
        context.partition,
        context.offset,
        exc_info=exception,
    )


def handler_of(handler: Handler | type[Any], setting: str) -> Handler:
    """The handler itself, where its class was given an object of it."""
    made = handler() if isinstance(handler, type) else handler
    if not callable(made):
        raise ConfigError(
            f"{setting} must be LogAndFail, LogAndContinue or a function (context, record, exception), not {made!r}"
        )
    return made


def ask(handler: Handler, context: ErrorContext, record: Any, exception: Exception) -> Response:
    """The handler's answer; TypeError if it is none."""
    answer: object = handler(context, record, exception)
    if isinstance(answer, Response):
        return answer
    if isinstance(answer, HandlerResponse):
        return Response(answer)
    raise TypeError(
        f"An exception handler answers FAIL, CONTINUE or a Response, not {answer!r}; "
        "import them from headrace.task.handlers"
    )


EXCEPTION_HEADER = "__streams.errors.exception"
MESSAGE_HEADER = "__streams.errors.message"
STACKTRACE_HEADER = "__streams.errors.stacktrace"
TOPIC_HEADER = "__streams.errors.topic"
PARTITION_HEADER = "__streams.errors.partition"
OFFSET_HEADER = "__streams.errors.offset"


def dead_letters(context: ErrorContext, exception: Exception) -> tuple[OutputRecord, ...]:
    """The input record for the configured dead letter topic; nothing where there is none."""
    topic = context.dead_letter_queue_topic
    return () if topic is None else (dead_letter(topic, context, exception),)


def dead_letter(topic: str, context: ErrorContext, exception: Exception) -> OutputRecord:
    """The input record for a dead letter topic, with the error in Kafka Streams' headers."""
    kind = type(exception)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    stack = "".join(traceback.format_exception(kind, exception, exception.__traceback__))
    headers = (
        *context.headers,
        (EXCEPTION_HEADER, name.encode()),
        (MESSAGE_HEADER, str(exception).encode() or None),
        (STACKTRACE_HEADER, stack.encode()),
        (TOPIC_HEADER, None if context.topic is None else context.topic.encode()),
        (PARTITION_HEADER, str(context.partition).encode()),
        (OFFSET_HEADER, str(context.offset).encode()),
    )
    return OutputRecord(topic, context.raw_key, context.raw_value, context.timestamp, headers)
