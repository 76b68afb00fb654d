"""An application at work, in processes of its own."""

from __future__ import annotations

import os
import subprocess
import time

from benchmarks.contenders.application import Application
from benchmarks.contenders.commands import command
from benchmarks.processes import Usage, kill_tree, usage
from benchmarks.stand import ROOT, Stand

_LOG_LINES = 20


class Running:
    """An application at work in a process of its own. A context manager: it is killed on leaving."""

    def __init__(self, stand: Stand, application: Application) -> None:
        self.application = application
        self.home = stand.directory / application.application_id
        self.home.mkdir(exist_ok=True)
        self._log = self.home / "log.txt"
        with self._log.open("ab") as log:
            self.started = time.monotonic()
            self._process = subprocess.Popen(
                command(stand, application, self.home),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.home,
                env={**os.environ, **self._environment()},
            )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Ends the process and all below it with SIGKILL."""
        kill_tree(self._process.pid)
        self._process.wait()

    def usage(self) -> Usage:
        """What it has used so far; RuntimeError if it has ended."""
        self.check()
        return usage(self._process.pid)

    def check(self) -> None:
        """RuntimeError, with the end of its log, if it has ended."""
        code = self._process.poll()
        if code is not None:
            end = "\n".join(self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
            raise RuntimeError(f"{self.application.application_id} ended with code {code}:\n{end}")

    def _environment(self) -> dict[str, str]:
        """What it leaves behind when it is killed goes where it will be removed."""
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        return {"PYTHONPATH": path, "TMPDIR": str(self.home), "SPARK_LOCAL_DIRS": str(self.home / "spark")}
