"""What is going on: a progress bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_LINE_SECONDS = 10.0

Advance = Callable[[int], None]
"""Called with how much is done so far."""


class Display:
    """Prints for people."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)

    def say(self, line: str = "") -> None:
        """Prints a line as it is."""
        self._console.print(line, markup=False, soft_wrap=True)

    @contextmanager
    def task(self, what: str, total: int | None = None) -> Iterator[Advance]:
        """Shows how far something is while the block runs."""
        if self._console.is_terminal:
            with self._bar(what, total) as advance:
                yield advance
        else:
            self.say(f"{what} …")
            yield self._lines(total)

    @contextmanager
    def _bar(self, what: str, total: int | None) -> Iterator[Advance]:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            task = progress.add_task(what, total=total)
            yield lambda done: progress.update(task, completed=done)

    def _lines(self, total: int | None) -> Advance:
        shown = time.monotonic()

        def advance(done: int) -> None:
            nonlocal shown
            if time.monotonic() - shown >= _LINE_SECONDS:
                shown = time.monotonic()
                self.say(f"  {done:,}" if total is None else f"  {done:,} of {total:,}")

        return advance
