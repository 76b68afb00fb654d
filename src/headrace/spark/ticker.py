"""A clock that wakes tasks whose wall-clock punctuations are due."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_LONGEST_WAIT = 60.0
"""Seconds after which the clock is looked at again: it may have been set."""


class Ticker:
    """Calls a function in a thread of its own each time a moment has come. `set` says which moment is next."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick = tick
        self._changed = threading.Condition()
        self._due: int | None = None
        self.is_ended = False
        self._thread = threading.Thread(target=self._run, name="headrace-ticker", daemon=True)

    def start(self) -> None:
        """Begins to wait."""
        self._thread.start()

    def set(self, due: int | None) -> None:
        """Sets the next moment, in milliseconds; None: there is none."""
        with self._changed:
            self._due = due
            self._changed.notify()

    def end(self, seconds: float | None = None) -> None:
        """Calls the function no more; a call that is under way is waited for, as long as is said."""
        with self._changed:
            self.is_ended = True
            self._changed.notify()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(seconds)

    def _run(self) -> None:
        while self._await_due():
            self._tick()

    def _await_due(self) -> bool:
        """Waits for the moment; False if it was ended before."""
        with self._changed:
            while not self.is_ended:
                if self._due is None:
                    self._changed.wait()
                elif (left := self._due / 1000 - time.time()) > 0:
                    self._changed.wait(min(left, _LONGEST_WAIT))
                else:
                    return True
            return False
