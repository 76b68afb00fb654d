"""A worker process that runs the first batches: Spark takes seconds to start, and results need not wait for it.

It runs what Spark's Python workers run, in the same environment and on the same working copies, and ends when Spark is
ready. It is a help and no more: what fails in it shows in no result, and Spark runs it again.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, Pipe

from pyspark import cloudpickle

from headrace.spark.parcels import Parcel
from headrace.spark.worker import Batch, Work, remember_program, run_all_stages

logger = logging.getLogger(__name__)

_ENVIRONMENT = "spark.executorEnv."
_SHIPPED = ("spark.files", "spark.archives", "spark.submit.pyFiles")
"""What Spark gives to its workers alone."""
_ERRORS = 2
"""Where workers of Spark print too: standard output is the application's."""
_LOOK_SECONDS = 0.5
_GONE = (OSError, EOFError)
"""What is raised where the other end of the connection is gone."""


class FirstWorker:
    """A process that runs one batch after the other."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        """`settings` are Spark's: what they put into the environment of workers is put into this one's."""
        given = {
            name.removeprefix(_ENVIRONMENT): str(value)
            for name, value in settings.items()
            if name.startswith(_ENVIRONMENT)
        }
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=_ERRORS,
                # As PySpark has it: hash() must be the same in every worker.
                env={"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1", **os.environ, **given},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C is the driver's: it ends the process when it has ended itself
            )

    @staticmethod
    def is_like_sparks(settings: Mapping[str, object]) -> bool:
        """Whether it has all that Spark's workers have under these settings."""
        return not any(name in settings for name in _SHIPPED)

    def begin(self, pickled: bytes) -> None:
        """Tells it what the application runs: the function of Spark's workers, and the program."""
        with suppress(*_GONE):
            self._connection.send_bytes(cloudpickle.dumps(run_all_stages))
            self._connection.send_bytes(pickled)

    def run(self, batch: Batch, works: Sequence[Work], is_over: Callable[[], bool]) -> list[Parcel] | None:
        """What the tasks give; None where the batch failed, the process has ended, or nobody waits for it any more."""
        try:
            self._connection.send((batch, works))
            while not self._connection.poll(_LOOK_SECONDS):
                # A process that a function has started may keep the connection open for it.
                if self._process.poll() is not None or is_over():
                    return None
            parcels, failure = self._connection.recv()
        except _GONE:
            logger.debug("the first worker has ended with batch %d", batch.number)
            return None
        if failure is not None:
            logger.debug("batch %d failed in the first worker:\n%s", batch.number, failure)
        found: list[Parcel] | None = parcels
        return found

    def close(self) -> None:
        """Ends the process and what it has started; another thread may wait for it."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def main(descriptor: int) -> None:
    """Runs batches as they come, until the driver is gone."""
    import headrace.spark.task_run  # noqa: F401

    os.set_inheritable(descriptor, False)
    threading.Thread(target=_end_with_the_driver, args=(descriptor,), daemon=True).start()
    with Connection(descriptor) as connection:
        run = cloudpickle.loads(connection.recv_bytes())
        program = cloudpickle.loads(connection.recv_bytes())
        remember_program(program)
        while True:
            batch, works = connection.recv()
            connection.send(_answer(partial(run, program.id, None, batch, [works], 0, ())))


def _end_with_the_driver(descriptor: int) -> None:
    """Ends this process with the driver's, whatever it does: another driver may be at work on the same copies."""
    watch = select.poll()
    watch.register(descriptor, select.POLLHUP)
    watch.poll()
    os._exit(1)


def _answer(run: Callable[[], Iterable[Parcel]]) -> tuple[list[Parcel] | None, str | None]:
    """The results of a batch, or why there are none."""
    try:
        return list(run()), None
    except Exception:
        return None, traceback.format_exc()


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except _GONE:
        sys.exit(0)
