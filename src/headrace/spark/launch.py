"""Starts Spark's JVM with its settings in private files: every user of the machine can read a command line."""

from __future__ import annotations

import os
import re
import shlex
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

from headrace.errors import EnvironmentFailed
from headrace.java_properties import java_properties
from headrace.private_files import PRIVATE_UMASK

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_NO_ARGUMENTS = "pyspark-shell"
_ANSWER_FILE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""Where Spark writes its port and secret."""
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_LOOK_SECONDS = 0.02
_WITHOUT_INTERRUPTS = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""Runs a command that Ctrl-C does not end: that is the driver's."""


def launch_jvm(settings: Mapping[str, str]) -> Any:
    """The way into a new JVM that has these settings."""
    # The directory is private, as all that tempfile makes. Spark reads the files before it answers.
    with tempfile.TemporaryDirectory(prefix="headrace-spark-") as directory:
        options = Path(directory, "java-options")
        options.write_text(java_arguments(settings.get(_JAVA_OPTIONS, "")))
        properties = Path(directory, "settings.properties")
        properties.write_text(java_properties({**settings, _JAVA_OPTIONS: f"@{options}"}))
        answer = Path(directory, "answer")
        process = _start(properties, answer)
        port, secret = _read(answer, process)
    with _environment({_PORT: str(port), _SECRET: secret}):
        gateway = launch_gateway()
    # The JVM ends when its standard input does: with this process, or when nobody has it any more.
    gateway.proc = process
    return gateway


def _start(properties: Path, answer: Path) -> subprocess.Popen[bytes]:
    """spark-submit in a process of its own.

    PySpark's own start runs Python between fork and exec. With Kafka clients in the process that crashes at times: the
    child frees what other threads had, and waits for threads of librdkafka that it does not have.
    """
    given = os.environ.get(_ARGUMENTS, _NO_ARGUMENTS)
    return subprocess.Popen(
        [
            *_WITHOUT_INTERRUPTS,
            str(Path(_find_spark_home(), "bin", "spark-submit")),
            "--load-spark-defaults",
            "--properties-file",
            str(properties),
            *shlex.split(given),
        ],
        stdin=subprocess.PIPE,
        env={**os.environ, "SPARK_CONNECT_MODE": "0", _ANSWER_FILE: str(answer)},
        umask=PRIVATE_UMASK,
    )


def _read(answer: Path, process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """The port and the secret that Spark has written, when it has."""
    while not answer.exists():
        if process.poll() is not None:
            raise EnvironmentFailed(
                f"Spark's JVM ended with exit code {process.returncode} before it was ready. Its output, in the log of "
                "the application, says why."
            )
        time.sleep(_LOOK_SECONDS)
    written = answer.read_bytes()
    port, length = struct.unpack_from(">ii", written)
    return port, written[8 : 8 + length].decode()


def java_arguments(options: str) -> str:
    """Options of the JVM, which are quoted as in a shell, as a file of its arguments."""
    quoted = (re.sub(r'([\\"])', r"\\\1", option) for option in shlex.split(options))
    return "".join(f'"{option}"\n' for option in quoted)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]
