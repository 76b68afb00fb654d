"""How a table's current value is found, as data: from a store, or computed from the parent's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Function = Callable[..., Any]


@dataclass(frozen=True)
class View:
    """The base of all views."""

    @property
    def stores(self) -> tuple[str, ...]:
        """The names of the stores the view reads."""
        raise TypeError(f"{type(self).__name__} does not say which stores it reads")


@dataclass(frozen=True)
class StoreView(View):
    """Values as the key-value store has them (timestamped or versioned)."""

    store: str

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)


@dataclass(frozen=True)
class WindowStoreView(View):
    """Values of a window store, asked with `Windowed` keys."""

    store: str

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)


@dataclass(frozen=True)
class SessionStoreView(View):
    """Values of a session store, asked with `Windowed` keys."""

    store: str

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)


@dataclass(frozen=True)
class FilteredView(View):
    """The parent's value where the predicate holds."""

    parent: View
    predicate: Function
    negate: bool

    @property
    def stores(self) -> tuple[str, ...]:
        return self.parent.stores


@dataclass(frozen=True)
class MappedView(View):
    """The parent's value, mapped."""

    parent: View
    mapper: Function

    @property
    def stores(self) -> tuple[str, ...]:
        return self.parent.stores


@dataclass(frozen=True)
class TransformedView(View):
    """The parent's value, transformed by an instance of its own of the transformer."""

    parent: View
    supplier: Callable[[], Any]

    @property
    def stores(self) -> tuple[str, ...]:
        return self.parent.stores


@dataclass(frozen=True)
class JoinedView(View):
    """The join of two tables' values; kind is inner, left or outer, `joiner(k, left, right)`."""

    kind: str
    left: View
    right: View
    joiner: Function

    @property
    def stores(self) -> tuple[str, ...]:
        return (*self.left.stores, *self.right.stores)


@dataclass(frozen=True)
class SuppressedView(View):
    """What the suppress buffer last let through: its prior value where it holds the key back, else the parent's."""

    parent: View
    store: str

    @property
    def stores(self) -> tuple[str, ...]:
        return (*self.parent.stores, self.store)
