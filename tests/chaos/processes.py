"""The application's processes, seen from outside: its driver, its JVM and its Python workers."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.chaos.application import Settings

ROOT = Path(__file__).parents[2]
_PATIENCE_SECONDS = 300.0
_POLL_SECONDS = 0.05


class Event(NamedTuple):
    """A line that the application printed."""

    name: str
    batch: int
    time: float


class Application:
    """The application in a process of its own, and what it has told so far."""

    def __init__(self, settings: Settings, log: Path) -> None:
        self.log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.application", msgspec.json.encode(settings).decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
                text=True,
            )
        self.events: list[Event] = []
        self._lines: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._jvm: int | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        """The driver's Python process."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.exit_code is None

    def next_event(self) -> Event | None:
        """Waits for the next line; None when the application has ended."""
        try:
            event = self._lines.get(timeout=_PATIENCE_SECONDS)
        except queue.Empty:
            raise AssertionError(f"The application has been silent for too long: see {self.log}") from None
        if event is None:
            self._lines.put(None)
            self._process.wait()
        else:
            self.events.append(event)
        return event

    def await_event(self, name: str, after: float = 0.0) -> Event:
        """Waits for an event of that name, one that came after a moment."""
        while (event := self.next_event()) is not None:
            if event.name == name and event.time >= after:
                return event
        raise AssertionError(f"The application ended with {self.exit_code} before {name!r}: see {self.log}")

    def await_spark(self) -> None:
        """Waits until it has Spark; the first batch may begin before."""
        if self._jvm is None:
            self.await_event("spark")

    def await_after(self, moment: float) -> None:
        """Waits until all that happened before a moment is known."""
        while (event := self.next_event()) is not None and event.time <= moment:
            pass

    def await_end(self) -> int:
        """Takes in what it still tells; its exit code."""
        while self.next_event() is not None:
            pass
        return self._process.wait()

    def batch_at(self, moment: float) -> int | None:
        """The batch that was under way at a moment in the past, None if there was none."""
        running = None
        for event in self.events:
            if event.time > moment:
                break
            if event.name in ("begin", "end"):
                running = event.batch if event.name == "begin" else None
        return running

    def typical_batch(self) -> float:
        """How many seconds a batch takes; the first, and those that waited for a broker, do not count."""
        begins = {event.batch: event.time for event in self.events if event.name == "begin"}
        took = [event.time - begins[event.batch] for event in self.events if event.name == "end"]
        return statistics.median(took[1:]) if len(took) > 1 else 1.0

    @property
    def jvm(self) -> int:
        """The driver's Java process, known as soon as it has Spark."""
        assert self._jvm is not None
        return self._jvm

    def workers(self) -> list[int]:
        """The Python workers, without the daemon that makes them, once there are any."""
        while True:
            python = [pid for pid in descendants(self.jvm) if "headrace.spark.daemon" in command_line(pid)]
            parents = {parent_of(pid) for pid in python}
            if workers := sorted(pid for pid in python if pid not in parents and parent_of(pid) in python):
                return workers
            time.sleep(_POLL_SECONDS)

    def first_worker(self) -> int | None:
        """The worker process that runs batches while Spark starts; None where there is none any more."""
        below = descendants(self.pid)
        return next((pid for pid in below if "headrace.spark.first_worker" in command_line(pid)), None)

    def signal(self, sign: int) -> None:
        """Sends the driver a signal."""
        self._process.send_signal(sign)

    def kill(self) -> None:
        """Ends what is left of it."""
        left = [self.pid, *descendants(self.pid)] if self.exit_code is None else []
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.await_end()

    def await_jvm_end(self) -> None:
        """Waits until its JVM, if it had one, has followed the driver."""
        while is_alive(self._jvm):
            time.sleep(_POLL_SECONDS)

    def _find_jvm(self) -> int | None:
        return next((pid for pid in descendants(self.pid) if "org.apache.spark" in command_line(pid)), None)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            name, *numbers, moment = line.split()
            if name == "spark":
                self._jvm = self._find_jvm()
            self._lines.put(Event(name, int(numbers[0]) if numbers else -1, float(moment)))
        self._lines.put(None)


def descendants(pid: int) -> list[int]:
    """The processes below a process."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := parent_of(int(entry.name))) is not None:
            children.setdefault(parent, []).append(int(entry.name))

    def below(parent: int) -> Iterator[int]:
        for child in children.get(parent, ()):
            yield child
            yield from below(child)

    return list(below(pid))


def await_unused(directory: Path) -> None:
    """Waits until no process has a file below the directory in its memory."""
    while any(str(directory) in _maps(pid) for pid in os.listdir("/proc") if pid.isdigit()):
        time.sleep(_POLL_SECONDS)


def _maps(pid: str) -> str:
    try:
        return Path("/proc", pid, "maps").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""


def is_alive(pid: int | None) -> bool:
    """Whether the process is there, and not only its exit code."""
    try:
        return pid is not None and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def parent_of(pid: int) -> int | None:
    """The process's parent, None if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def command_line(pid: int) -> str:
    """The process's command, empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""
