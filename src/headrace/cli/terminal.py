"""What the user sees: one console, with everybody else's chatter in a log file."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from headrace.errors import EnvironmentFailed
from headrace.private_files import make_private_directory, open_private

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_SLOW_SECONDS = 1.0
_LOOK_SECONDS = 5.0
MOST_LOG_BYTES = 10 * 1024**2
"""How large a log may grow; it and two earlier ones are kept."""

logger = logging.getLogger(__name__)


class Terminal:
    """Prints for people: with colours and progress on a terminal, as plain lines elsewhere."""

    def __init__(self, console: Console | None = None, errors: Console | None = None) -> None:
        self.console = console or _console(sys.stdout)
        self.errors = errors or _console(sys.stderr)

    @property
    def is_interactive(self) -> bool:
        """Whether somebody watches."""
        return self.console.is_terminal

    def say(self, line: str) -> None:
        """Prints a line as it is."""
        _print(self.console, line, None)

    def complain(self, message: str) -> None:
        """Prints an error."""
        _print(self.errors, message, "red")

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Shows what is going on while the block runs; where nobody watches, if it takes its time."""
        if self.is_interactive:
            with self.console.status(f"{what} …"):
                yield
            return
        slow = threading.Timer(_SLOW_SECONDS, self.say, [f"{what} …"])
        slow.daemon = True
        slow.start()
        try:
            yield
        finally:
            slow.cancel()

    @contextmanager
    def counting(self, what: str, unit: str) -> Iterator[Callable[[int], None]]:
        """A progress bar for something of which only the count so far is known; it shows with the first one."""
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"))
        progress = Progress(*columns, TimeElapsedColumn(), console=self.console, transient=True)
        task = progress.add_task(what, total=None, count="")
        said = False

        def show(count: int) -> None:
            nonlocal said
            if self.is_interactive:
                progress.start()
            elif not said:
                self.say(f"{what} …")
            said = True
            progress.update(task, count=f"{count} {unit}")

        try:
            yield show
        finally:
            if self.is_interactive and said:
                progress.stop()


def _print(console: Console, text: str, style: str | None) -> None:
    if console.is_terminal:
        console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
    else:  # rich would replace tabs
        console.file.write(f"{text}\n")
    console.file.flush()


def _console(file: TextIO) -> Console:
    return Console(file=file, highlight=False)


@contextmanager
def chatter_in(log_file: Path, level: str) -> Iterator[Terminal]:
    """A terminal of our own, while all that this process and its children print goes to the file.

    Spark's JVM and librdkafka write to the standard streams' descriptors: so these are what is redirected.
    """
    log = _open_log(log_file)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    saved = {number: os.dup(number) for number in (1, 2)}
    handler = logging.StreamHandler(log)
    handler.setFormatter(logging.Formatter(_FORMAT))
    root = logging.getLogger()
    level_before = root.level
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in ("py4j", "httpx"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for number in saved:
        os.dup2(log.fileno(), number)
    try:
        with (
            _kept_small(log_file, log),
            os.fdopen(os.dup(saved[1]), "w", encoding="utf-8", errors="replace") as out,
            os.fdopen(os.dup(saved[2]), "w", encoding="utf-8", errors="replace") as err,
        ):
            yield Terminal(_console(out), _console(err))
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, descriptor in saved.items():
            os.dup2(descriptor, number)
            os.close(descriptor)
        root.removeHandler(handler)
        root.setLevel(level_before)
        log.close()


@contextmanager
def _kept_small(path: Path, log: TextIO) -> Iterator[None]:
    """Rotates the log meanwhile. It is copied and emptied, as other processes write to the same open file."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_SECONDS):
            if os.fstat(log.fileno()).st_size > MOST_LOG_BYTES:
                try:
                    rotate(path)
                except OSError as error:
                    logger.warning("The log cannot be rotated: %s", error)

    watching = threading.Thread(target=watch, name="headrace-log", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


def rotate(path: Path) -> None:
    """Moves what the log has to `<log>.1`, and what was there to `<log>.2`."""
    first, second = (path.with_name(f"{path.name}.{number}") for number in (1, 2))
    if first.exists():
        first.replace(second)
    with path.open("rb") as content, open_private(first, "wb") as kept:
        shutil.copyfileobj(content, kept)
    os.truncate(path, 0)


def _open_log(path: Path) -> TextIO:
    try:
        make_private_directory(path.parent)
        log = open_private(path, "a", encoding="utf-8", buffering=1)
        assert isinstance(log, TextIOWrapper)
        return log
    except OSError as error:
        raise EnvironmentFailed(
            f"The log file {path} cannot be written: {error.strerror}. Choose another place with --log-file."
        ) from None
