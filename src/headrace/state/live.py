"""Values that wait for the commit as what they are, not as bytes.

A cached store of aggregates reads and writes a value for each record, and only the last one is ever seen. While all
that is done with the store is to revise values one by one, they are held here in their plain form. Anything else, a
read, a scan, a value without a plain form, a function that fails, a cache that might be full, first has the store
*settle*: what is held is serialized and put as if it had been all along.
"""

from __future__ import annotations

from typing import Any

from headrace.record import RecordContext
from headrace.serdes.forms.timestamped import TIMESTAMP_SIZE
from headrace.serdes.plain import PlainForm
from headrace.state.cache import ENTRY_SIZE, RecordCache

LiveValue = tuple[Any, int, "bytes | None", RecordContext]
"""A value since the last commit: its plain form, its time, what the store had before, the last update's context."""


class LiveValues:
    """The values of one store, by the key of the ordered store, in the order of their last update."""

    __slots__ = ("_cache", "_estimate", "_size", "form", "held", "is_suspended", "topic")

    def __init__(self, form: PlainForm, cache: RecordCache) -> None:
        self.form = form
        self.held: dict[bytes, LiveValue] = {}
        self.is_suspended = False
        """Whether values are put as bytes until the next commit."""
        self.topic: str | None = None
        """The topic that updates come from; its name counts as part of an entry of the cache."""
        self._cache = cache
        self._estimate = 0
        self._size = ENTRY_SIZE + TIMESTAMP_SIZE + form.size

    def admit(self, place: bytes, value: LiveValue) -> bool:
        """Holds a value that was not held before, unless the cache might be full with it."""
        topic = value[3].topic
        size = self._size + len(place) + (0 if topic is None else len(topic))
        cache = self._cache
        if cache.size + cache.estimate + size > cache.max_bytes:
            return False
        self._estimate += size
        cache.estimate += size
        self.topic = topic
        self.held[place] = value
        return True

    def suspend(self) -> None:
        """Has values put as bytes from now on."""
        self.is_suspended = True

    def resume(self) -> None:
        """Holds values again."""
        self.is_suspended = False

    def take(self) -> dict[bytes, LiveValue]:
        """All values, which are not held any more."""
        held = self.held
        self.held = {}
        self._cache.estimate -= self._estimate
        self._estimate = 0
        return held
