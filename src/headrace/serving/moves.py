"""Copies move on: those who wait for it are told, in threads and on event loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

Condition = Callable[[], bool]


class Moves:
    """What is waited for is looked at when something has moved, and only then."""

    def __init__(self) -> None:
        self._moved = threading.Condition()
        self._on_loops: dict[asyncio.AbstractEventLoop, _Waiting] = {}

    def tell(self) -> None:
        """Something has moved."""
        with self._moved:
            self._moved.notify_all()
            waiting = list(self._on_loops.values())
        for each in waiting:
            each.look_soon()

    def wait_for(self, condition: Condition, timeout: float) -> bool:
        """Waits until something holds, at most so long; whether it does."""
        with self._moved:
            return self._moved.wait_for(condition, timeout)

    async def until(self, condition: Condition, timeout: float) -> bool:
        """The same on an event loop, of which nothing is asked meanwhile."""
        loop = asyncio.get_running_loop()
        with self._moved:
            waiting = self._on_loops.setdefault(loop, _Waiting(loop))
        try:
            return await waiting.until(condition, timeout)
        finally:
            with self._moved:
                if waiting.is_empty:
                    self._on_loops.pop(loop, None)


class _Waiting:
    """Those who wait on one loop. A look at all of them costs less than waking each to look for itself."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._conditions: dict[asyncio.Future[None], Condition] = {}
        self._is_looking = threading.Event()

    @property
    def is_empty(self) -> bool:
        return not self._conditions

    async def until(self, condition: Condition, timeout: float) -> bool:
        found = self._loop.create_future()
        # What moves from now on is seen; what moved before is seen by this look.
        self._conditions[found] = condition
        try:
            if not condition():
                await asyncio.wait([found], timeout=timeout)
            return condition()
        finally:
            del self._conditions[found]

    def look_soon(self) -> None:
        """Has the loop look, from whatever thread; one look is enough for all that has moved before it."""
        if self._is_looking.is_set():
            return
        self._is_looking.set()
        try:
            self._loop.call_soon_threadsafe(self._look)
        except RuntimeError:  # the loop is closed, and nobody waits there any more
            self._conditions.clear()

    def _look(self) -> None:
        self._is_looking.clear()
        for found, condition in list(self._conditions.items()):
            if not found.done() and condition():
                found.set_result(None)
