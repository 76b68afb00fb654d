"""Which requests an instance works on: those that only wait for something leave their place to others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_MOST_WAITING = 2_000


class Places:
    """The places of requests that are worked on at once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._waiting = 0

    @property
    def are_taken(self) -> bool:
        """Whether there is none for another request."""
        return self.taken >= self.most

    @contextmanager
    def take(self) -> Iterator[None]:
        """Takes one meanwhile, for the request of the running task."""
        self.taken += 1
        token = _places.set(self)
        try:
            yield
        finally:
            _places.reset(token)
            self.taken -= 1

    @contextmanager
    def leave(self) -> Iterator[None]:
        """Leaves one meanwhile, unless very many have done so."""
        if self._waiting >= _MOST_WAITING:
            yield
            return
        self._waiting += 1
        self.taken -= 1
        try:
            yield
        finally:
            self.taken += 1
            self._waiting -= 1


_places: ContextVar[Places | None] = ContextVar("places", default=None)


@contextmanager
def only_waiting() -> Iterator[None]:
    """Leaves the place of the request that the running task works on, if it does."""
    places = _places.get()
    if places is None:
        yield
        return
    with places.leave():
        yield
