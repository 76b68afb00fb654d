"""How each contender is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.contenders.application import AT_LEAST_ONCE, HEADRACE, KAFKA_STREAMS, PYSPARK, QUIX_STREAMS, Application
from benchmarks.contenders.quix_environment import quix_python
from benchmarks.stand import Stand


def command(stand: Stand, application: Application, home: Path) -> list[str]:
    """The command that runs an application, with all that it keeps on disk below a directory."""
    return _COMMANDS[application.contender](stand, application, home)


def checkpoint_of(home: Path) -> Path:
    """Where hand-written PySpark notes how far it is."""
    return home / "checkpoint"


def _headrace(stand: Stand, application: Application, home: Path) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.contenders.headrace_side", *_topics(stand, application)]
    command += ["--state-dir", str(home / "state"), "--guarantee", application.guarantee]
    return [*command, *_batch_limit(application), "--batches", str(home / "batches.jsonl")]


def _kafka_streams(stand: Stand, application: Application, home: Path) -> list[str]:
    java, *rest = stand.java
    names = [application.topology, ",".join(application.sources), application.output, stand.servers]
    names += [application.application_id, str(home / "state"), str(os.cpu_count())]
    return [java, f"-Djava.io.tmpdir={home}", *rest, *names]


def _quix_streams(stand: Stand, application: Application, home: Path) -> list[str]:
    command = [str(quix_python()), "-m", "benchmarks.contenders.quix_side", *_topics(stand, application)]
    return [*command, "--state-dir", str(home / "state"), "--processes", str(os.cpu_count())]


def _pyspark(stand: Stand, application: Application, home: Path) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.contenders.pyspark_side", *_topics(stand, application)]
    return [*command, *_batch_limit(application), "--checkpoint", str(checkpoint_of(home))]


def _topics(stand: Stand, application: Application) -> list[str]:
    named = ["--topology", application.topology, "--sources", *application.sources, "--output", application.output]
    return [*named, "--servers", stand.servers, "--application-id", application.application_id]


def _batch_limit(application: Application) -> list[str]:
    return [] if application.batch_records is None else ["--batch-records", str(application.batch_records)]


_COMMANDS: dict[str, Callable[[Stand, Application, Path], list[str]]] = {
    HEADRACE: _headrace,
    AT_LEAST_ONCE: _headrace,
    KAFKA_STREAMS: _kafka_streams,
    QUIX_STREAMS: _quix_streams,
    PYSPARK: _pyspark,
}
