"""The application under test, in a process of its own: `python -m tests.chaos.application SETTINGS`.

SETTINGS is JSON, the fields of `Settings`. It prints a line when it has Spark, when it has started, when a batch
begins and ends and when it has to begin again after an error, each with the time. SIGUSR1 has it write to its log what
its threads do, SIGUSR2 make no more pauses.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading

import msgspec

from headrace import Streams, StreamsConfig
from tests.chaos.orders import topology
from tests.chaos.phases import Doom, say


class Settings(msgspec.Struct):
    """What the application is to do, and where it is to die."""

    application_id: str
    servers: str
    state_dir: str
    """The directory of the machine that it runs on."""
    source: str
    records_a_batch: int
    cache_max_bytes: int
    transaction_timeout_ms: int
    replication_factor: int
    phase: str | None
    """Where it is struck; None is nowhere."""
    first_batch: int
    """From which batch on."""
    sign: int
    waits_for_spark: bool
    """Whether no batch runs before Spark has started."""
    pause_seconds: float
    """How long each phase of a batch takes at least."""
    clock_jumps: bool
    """Whether the clock is set by hours, back and forth, again and again."""


def main() -> None:
    faulthandler.register(signal.SIGUSR1)
    threading.Thread(target=_end_with_the_test, daemon=True).start()
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    doom = Doom(
        settings.phase,
        settings.first_batch,
        settings.sign,
        waits_for_spark=settings.waits_for_spark,
        pause_seconds=settings.pause_seconds,
        clock_jumps=settings.clock_jumps,
    )
    signal.signal(signal.SIGUSR2, lambda *_: doom.hurry())
    config = StreamsConfig(
        application_id=settings.application_id,
        bootstrap_servers=settings.servers,
        state_dir=settings.state_dir,
        num_stream_threads=2,
        cache_max_bytes=settings.cache_max_bytes,
        replication_factor=settings.replication_factor,
        kafka={"producer.transaction.timeout.ms": settings.transaction_timeout_ms},
        spark={"maxOffsetsPerTrigger": settings.records_a_batch},
    )
    with Streams(topology(settings.source, settings.application_id), config) as application:
        say("started")
        application.wait()


def _end_with_the_test() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
