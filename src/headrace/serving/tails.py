"""The changes of stores as they are committed, read once however many follow them.

A tail reads a store from its end on, in a thread of its own, and passes the same bytes to all its followers. A follower
has a queue with a limit: one that falls behind is dropped, and goes on from where it was with a reader of its own.
Followers are used on the event loop alone.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum

from headrace.serving.changes import Change, ChangeReader, GapError

logger = logging.getLogger(__name__)

MOST_WAITING_BYTES = 1024 * 1024
"""How much may wait for a follower."""
_LOOK_SECONDS = 0.02
_AT_ONCE = 25
"""How many followers get a piece before the event loop turns to others."""
_MOST_PENDING = 100
"""How many deliveries may be under way before the tail reads on."""


class Ending(Enum):
    """Why a follower gets nothing more."""

    BEHIND = "behind"
    GAP = "gap"
    OVER = "over"


class Follower:
    """Who gets the changes of a store, from a position on."""

    def __init__(self, positions: Mapping[int, int], on_leave: Callable[[Follower], None]) -> None:
        self._on_leave = on_leave
        self.positions = dict(positions)
        """Where it begins, by partition."""
        self.ending: Ending | None = None
        self._pieces: deque[bytes] = deque()
        self._waiting = 0
        self._news = asyncio.Event()

    async def next(self, timeout: float) -> bytes | None:
        """The next events; None where none have come in time, or none will any more."""
        if not self._pieces and self.ending is None:
            try:
                await asyncio.wait_for(self._news.wait(), timeout)
            except asyncio.TimeoutError:
                return None
        if not self._pieces:
            return None
        piece = self._pieces.popleft()
        self._waiting -= len(piece)
        if not self._pieces and self.ending is None:
            self._news.clear()
        return piece

    def leave(self) -> None:
        """Gets nothing more."""
        self._on_leave(self)

    def take(self, piece: bytes) -> None:
        """Has events wait for it. With too many it is behind: what waited is forgotten."""
        if self.ending is not None:
            return
        if self._pieces and self._waiting + len(piece) > MOST_WAITING_BYTES:
            self._pieces.clear()
            self.end(Ending.BEHIND)
            return
        self._pieces.append(piece)
        self._waiting += len(piece)
        self._news.set()

    def end(self, ending: Ending) -> None:
        """Tells it that nothing more comes."""
        self.ending = self.ending or ending
        self._news.set()


class Tail:
    """Reads a store's changes from its end on while anybody follows them."""

    def __init__(
        self, make_reader: Callable[[], ChangeReader], encode: Callable[[Change], bytes], closing: threading.Event
    ) -> None:
        """`closing` is set when the instance is about to end."""
        self._make_reader = make_reader
        self._encode = encode
        self._closing = closing
        self._loop = asyncio.get_running_loop()
        self._followers: set[Follower] = set()
        self._positions: dict[int, int] = {}
        self._begun: asyncio.Future[None] = self._loop.create_future()
        self._pending: deque[tuple[bytes, list[Follower]]] = deque()
        """What is to be delivered, and to whom."""
        self._has_room = threading.Event()
        self._has_room.set()
        self._over = threading.Event()
        threading.Thread(target=self._run, name="headrace-tail", daemon=True).start()

    @property
    def is_over(self) -> bool:
        """Whether it reads no more."""
        return self._over.is_set()

    async def follow(self, at_least: Mapping[int, int]) -> Follower | None:
        """A follower from now on, once the tail is where it has to be at least; None where the tail has ended.

        Raises why it cannot begin.
        """
        await asyncio.shield(self._begun)
        while not self.is_over and any(self._positions[each] < offset for each, offset in at_least.items()):
            await asyncio.sleep(_LOOK_SECONDS)
        if self.is_over:
            return None
        follower = Follower(self._positions, self._leave)
        self._followers.add(follower)
        return follower

    def _leave(self, follower: Follower) -> None:
        if follower in self._followers:
            self._followers.remove(follower)
            if not self._followers:
                self._over.set()

    # --- in the thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            reader = self._make_reader()
        except Exception as error:
            self._over.set()
            self._tell(self._fail_to_begin, error)
            return
        try:
            told = dict(reader.positions)
            self._tell(self._begin_at, told)
            while not self._over.is_set() and not self._closing.is_set():
                if not self._has_room.wait(_LOOK_SECONDS):
                    continue
                changes = reader.read()
                if reader.positions != told:
                    told = dict(reader.positions)
                    self._tell(self._deliver, b"".join(map(self._encode, changes)), told)
            self._tell(self._end, Ending.OVER)
        except GapError:
            self._tell(self._end, Ending.GAP)
        except Exception:
            logger.exception("The changes of a store can no longer be read")
            self._tell(self._end, Ending.OVER)
        finally:
            self._over.set()
            reader.close()

    def _tell(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed: nobody follows any more
            self._over.set()

    # --- on the loop -------------------------------------------------------------------------------------------

    def _begin_at(self, positions: dict[int, int]) -> None:
        self._positions = positions
        if not self._begun.done():
            self._begun.set_result(None)

    def _fail_to_begin(self, error: Exception) -> None:
        if not self._begun.done():
            self._begun.set_exception(error)

    def _deliver(self, piece: bytes, positions: dict[int, int]) -> None:
        """Passes a piece to those who follow now, some at a time: each of them is woken to send it."""
        self._positions = positions
        if not piece:
            return
        followers = list(self._followers)
        if not self._pending:
            self._loop.call_soon(self._pass_on)
        self._pending.extend(
            (piece, followers[first : first + _AT_ONCE]) for first in range(0, len(followers), _AT_ONCE)
        )
        if len(self._pending) > _MOST_PENDING:
            self._has_room.clear()

    def _pass_on(self) -> None:
        if self._pending:
            piece, followers = self._pending.popleft()
            for follower in followers:
                follower.take(piece)
        if len(self._pending) <= _MOST_PENDING:
            self._has_room.set()
        if self._pending:
            self._loop.call_soon(self._pass_on)

    def _end(self, ending: Ending) -> None:
        self._over.set()
        while self._pending:
            self._pass_on()
        for follower in self._followers:
            follower.end(ending)
