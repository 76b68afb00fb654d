"""A standalone Spark cluster from pyspark's own files: a master and workers, each a process with a disk of its own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import pyspark

from headrace.kafka.java import find_java

SECONDS = 900.0
"""How long anything may take on a machine that is busy with other things."""
_SECURITY = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "the-cluster-s-own",
    "spark.network.crypto.enabled": "true",
}
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master")
_LEAN = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
# The workers' Python has what is installed, but neither this project's source nor its tests.
_HIDE_PROJECT = """
import sys
sys.path[:] = [path for path in sys.path if not path.startswith({project!r}) or "site-packages" in path]
"""
_T = TypeVar("_T")


class Daemon:
    """A master or a worker, and whatever it starts."""

    def __init__(self, name: str, arguments: list[str], directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory / name
        self.directory.mkdir(parents=True)
        self._log = self.directory / "log"
        home = Path(pyspark.__file__).parent
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env={**os.environ, **environment, "SPARK_HOME": str(home), "SPARK_LOCAL_DIRS": str(self.directory)},
                start_new_session=True,
            )

    def await_line(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """The line of the log that matches, when it is there."""

        def look() -> re.Match[str] | None:
            assert self._process.poll() is None, self._log.read_text()
            return pattern.search(self._log.read_text())

        return until(look, f"{pattern.pattern} in {self._log}")

    def kill(self) -> list[int]:
        """Kills the process and all that it started, at once; answers with who it was."""
        doomed = _session(self._process.pid)
        for number in doomed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self._process.wait()
        return doomed


class Cluster:
    """One master and two workers of one core each."""

    def __init__(self, directory: Path) -> None:
        hiding = directory / "hiding"
        hiding.mkdir(parents=True)
        project = str(Path(__file__).parents[2])
        (hiding / "sitecustomize.py").write_text(_HIDE_PROJECT.format(project=project))
        environment = {
            "JAVA_HOME": str(find_java().path.resolve().parents[1]),
            "PYTHONPATH": str(hiding),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join([_LEAN, *(f"-D{name}={value}" for name, value in _SECURITY.items())]),
        }
        common = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = Daemon("master", ["org.apache.spark.deploy.master.Master", *common], directory, environment)
        self._daemons = [master]
        try:
            self.master = master.await_line(_MASTER)[1]
            worker = ["org.apache.spark.deploy.worker.Worker", *common, "--cores", "1", "--memory", "1g"]
            worker += ["--work-dir", "work", self.master]
            self.workers = [Daemon(f"worker-{number}", worker, directory, environment) for number in (1, 2)]
            self._daemons += self.workers
            for daemon in self.workers:
                daemon.await_line(_REGISTERED)
        except BaseException:
            self.close()
            raise

    @property
    def settings(self) -> dict[str, str]:
        """Settings of Spark for an application that runs here."""
        return {
            **_SECURITY,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": _LEAN,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": _LEAN,
        }

    def close(self) -> None:
        for daemon in self._daemons:
            daemon.kill()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def until(look: Callable[[], _T | None], what: str) -> _T:
    """What `look` finds, as soon as it finds something."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited too long for {what}")


def _session(leader: int) -> list[int]:
    """The processes of the session that a process leads: Python's workers make groups of their own in it."""
    return [number for number in _processes() if _session_of(number) == leader]


def _processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _session_of(process: int) -> int | None:
    try:
        return os.getsid(process)
    except ProcessLookupError:
        return None
