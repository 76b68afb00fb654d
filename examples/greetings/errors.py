"""What happens to records that go wrong: three handlers, the dead letter topic, and the handler of last resort."""

from __future__ import annotations

from collections.abc import Callable

from headrace import REPLACE_THREAD, SHUTDOWN_CLIENT, LogAndContinue, Streams, StreamsConfig
from headrace.streams import ExceptionResponse

from .json_pipeline import Greeting, shout, topology

DEAD_LETTERS = "greetings-dead-letters"

BROKEN = b'{"message": "Good Morn'
"""No JSON: the deserialization handler is asked."""
TRANSIENT = b'{"message": "Transient Error", "timeStamp": "2022-12-04T05:26:31.060293"}'
"""`shout` raises: the processing handler is asked."""
HALF_AN_EMOJI = b'{"message": "Good Night \\ud83d", "timeStamp": "2022-12-04T05:26:31.060293"}'
"""It can be read, but no UTF-8 can be made of it: the production handler is asked."""

strict = StreamsConfig(application_id="greetings-json")
"""The default, LogAndFail: the first record that goes wrong stops the application."""

tolerant = StreamsConfig(
    application_id="greetings-json",
    deserialization_exception_handler=LogAndContinue,
    processing_exception_handler=LogAndContinue,
    production_exception_handler=LogAndContinue,
    dead_letter_queue_topic=DEAD_LETTERS,
)
"""A record that cannot be read, processed or written goes to the dead letter topic, and the next one has its turn."""


def last_resort(error: Exception) -> ExceptionResponse:
    """Asked after a handler has said to stop: what may pass by itself is tried again."""
    return REPLACE_THREAD if "Transient Error" in str(error) else SHUTDOWN_CLIENT


def application(config: StreamsConfig = strict, change: Callable[[Greeting], Greeting] = shout) -> Streams:
    """The application with its handler of last resort."""
    streams = Streams(topology(change), config)
    streams.set_uncaught_exception_handler(last_resort)
    return streams
