"""Value getters: how an operator asks a table for its current value, from a store or computed from the parent's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.errors import StoreError
from headrace.operators.operator import OperatorContext, ValueGetter
from headrace.operators.table_transform import Transformer
from headrace.record import RecordContext, ValueAndTimestamp
from headrace.topology.views import (
    FilteredView,
    JoinedView,
    MappedView,
    SessionStoreView,
    StoreView,
    SuppressedView,
    TransformedView,
    View,
    WindowStoreView,
)
from headrace.windowed import Windowed

UNKNOWN = -1
"""The time of a value whose time is not known."""


def make_getter(view: View, ctx: OperatorContext) -> ValueGetter:
    """The getter for a view."""
    return _GETTERS[type(view)](view, ctx)


class StoreGetter:
    """Values as the key-value store has them."""

    __slots__ = ("get", "get_as_of", "is_versioned")

    def __init__(self, view: StoreView, ctx: OperatorContext) -> None:
        store = ctx.store(view.store)
        self.get: Callable[[Any], ValueAndTimestamp | None] = store.get
        self.get_as_of: Callable[[Any, int], ValueAndTimestamp | None] = store.get_as_of
        self.is_versioned: bool = store.is_versioned


class _CurrentGetter:
    """The base of the getters that cannot look back."""

    __slots__ = ()

    is_versioned = False

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        raise StoreError("only versioned tables can tell the value at an earlier time")


class WindowStoreGetter(_CurrentGetter):
    """Values of a window store."""

    __slots__ = ("_fetch_one",)

    def __init__(self, view: WindowStoreView, ctx: OperatorContext) -> None:
        self._fetch_one: Callable[[Any, int], ValueAndTimestamp | None] = ctx.store(view.store).fetch_one

    def get(self, key: Windowed[Any]) -> ValueAndTimestamp | None:
        return self._fetch_one(key.key, key.window.start)


class SessionStoreGetter(_CurrentGetter):
    """Values of a session store; their time is the end of the session."""

    __slots__ = ("_fetch_one",)

    def __init__(self, view: SessionStoreView, ctx: OperatorContext) -> None:
        self._fetch_one = ctx.store(view.store).fetch_one

    def get(self, key: Windowed[Any]) -> ValueAndTimestamp | None:
        window = key.window
        return _timed(self._fetch_one(key.key, window.start, window.end), window.end)


class FilteredGetter:
    """The parent's value where the predicate holds."""

    __slots__ = ("_negate", "_parent", "_predicate", "is_versioned")

    def __init__(self, view: FilteredView, ctx: OperatorContext) -> None:
        self._parent = ctx.view(view.parent)
        self._predicate = view.predicate
        self._negate = bool(view.negate)
        self.is_versioned: bool = self._parent.is_versioned

    def get(self, key: Any) -> ValueAndTimestamp | None:
        return self._filtered(key, self._parent.get(key))

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        return self._filtered(key, self._parent.get_as_of(key, timestamp))

    def _filtered(self, key: Any, found: ValueAndTimestamp | None) -> ValueAndTimestamp | None:
        if found is not None and (not self._predicate(key, found.value)) is self._negate:
            return found
        return None


class MappedGetter:
    """The parent's value, mapped."""

    __slots__ = ("_mapper", "_parent", "is_versioned")

    def __init__(self, view: MappedView, ctx: OperatorContext) -> None:
        self._parent = ctx.view(view.parent)
        self._mapper = view.mapper
        self.is_versioned: bool = self._parent.is_versioned

    def get(self, key: Any) -> ValueAndTimestamp | None:
        return self._mapped(key, self._parent.get(key))

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        return self._mapped(key, self._parent.get_as_of(key, timestamp))

    def _mapped(self, key: Any, found: ValueAndTimestamp | None) -> ValueAndTimestamp | None:
        if found is None:
            return None
        return _timed(self._mapper(key, found.value), found.timestamp)


class TransformedGetter:
    """The parent's value, transformed; the transformer sees the time of the value and no headers or topic."""

    __slots__ = ("_parent", "_transformer", "is_versioned")

    def __init__(self, view: TransformedView, ctx: OperatorContext) -> None:
        self._parent = ctx.view(view.parent)
        self._transformer = Transformer(view.supplier, ctx)
        self.is_versioned: bool = self._parent.is_versioned

    def get(self, key: Any) -> ValueAndTimestamp | None:
        return self._transformed(key, self._parent.get(key))

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        return self._transformed(key, self._parent.get_as_of(key, timestamp))

    def close(self) -> None:
        """Closes the transformer."""
        self._transformer.close()

    def _transformed(self, key: Any, found: ValueAndTimestamp | None) -> ValueAndTimestamp | None:
        value, timestamp = (None, UNKNOWN) if found is None else found
        return _timed(self._transformer.transform(key, value, RecordContext(timestamp)), timestamp)


class JoinedGetter(_CurrentGetter):
    """The join of two tables' values; its time is the later of the two."""

    __slots__ = ("_joiner", "_left", "_needs_left", "_needs_right", "_right")

    def __init__(self, view: JoinedView, ctx: OperatorContext) -> None:
        self._left = ctx.view(view.left)
        self._right = ctx.view(view.right)
        self._joiner = view.joiner
        self._needs_left = view.kind in ("inner", "left")
        self._needs_right = view.kind == "inner"

    def get(self, key: Any) -> ValueAndTimestamp | None:
        left = self._left.get(key)
        if left is None and self._needs_left:
            return None
        right = self._right.get(key)
        if right is None and self._needs_right:
            return None
        if left is None and right is None:
            return None
        left_value, left_timestamp = (None, UNKNOWN) if left is None else left
        right_value, right_timestamp = (None, UNKNOWN) if right is None else right
        return _timed(self._joiner(key, left_value, right_value), max(left_timestamp, right_timestamp))


class SuppressedGetter(_CurrentGetter):
    """What the suppress buffer last let through."""

    __slots__ = ("_buffer", "_parent")

    def __init__(self, view: SuppressedView, ctx: OperatorContext) -> None:
        self._parent = ctx.view(view.parent)
        self._buffer = ctx.store(view.store)

    def get(self, key: Any) -> ValueAndTimestamp | None:
        is_buffered, prior = self._buffer.prior_value(key)
        return _timed(prior, UNKNOWN) if is_buffered else self._parent.get(key)


def _timed(value: Any, timestamp: int) -> ValueAndTimestamp | None:
    return None if value is None else ValueAndTimestamp(value, timestamp)


_GETTERS: dict[type[View], Callable[[Any, OperatorContext], ValueGetter]] = {
    StoreView: StoreGetter,
    WindowStoreView: WindowStoreGetter,
    SessionStoreView: SessionStoreGetter,
    FilteredView: FilteredGetter,
    MappedView: MappedGetter,
    TransformedView: TransformedGetter,
    JoinedView: JoinedGetter,
    SuppressedView: SuppressedGetter,
}
