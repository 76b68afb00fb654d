"""The iteration orders of Java's HashSet and TreeSet.

Kafka Streams prints the sets it works with, and creates stores in the order of one of them. The text of a
description, and the order in which stores are flushed, can only be the same with the same orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")

_DEFAULT_CAPACITY = 16
_LOAD_FACTOR = 0.75


def string_hash(text: str) -> int:
    """`String.hashCode()`, as an unsigned 32-bit number."""
    result = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return result


def hash_set_order(items: Iterable[str], *, sized: bool = False) -> list[str]:
    """The strings as a HashSet iterates over them that was filled in this order.

    `sized` is for a set made from a collection, whose table has its final size from the start.
    """
    unique = list(dict.fromkeys(items))
    capacity = _DEFAULT_CAPACITY
    while len(unique) > capacity * _LOAD_FACTOR:
        capacity *= 2
    if sized:
        needed = max(int(len(unique) / _LOAD_FACTOR) + 1, _DEFAULT_CAPACITY)
        capacity = 1 << (needed - 1).bit_length()
    return sorted(unique, key=lambda item: _bucket(item, capacity))


def _bucket(item: str, capacity: int) -> int:
    code = string_hash(item)
    return (code ^ (code >> 16)) & (capacity - 1)


class _Entry(Generic[T]):
    __slots__ = ("item", "left", "parent", "red", "right")

    def __init__(self, item: T, parent: _Entry[T] | None) -> None:
        self.item = item
        self.parent = parent
        self.left: _Entry[T] | None = None
        self.right: _Entry[T] | None = None
        self.red = True


class TreeSet(Generic[T]):
    """A red-black tree that inserts as Java's does.

    The comparator may look at what changes between insertions, so the order is that of the comparisons made
    on the way, and depends on the shape of the tree: a sorted list would not do.
    """

    def __init__(self, compare: Callable[[T, T], int]) -> None:
        self._compare = compare
        self._root: _Entry[T] | None = None

    def add(self, item: T) -> None:
        """Adds the item, unless an equal one is met on the way down."""
        parent, node, order = None, self._root, 0
        while node is not None:
            parent = node
            order = self._compare(item, node.item)
            if order == 0:
                return
            node = node.left if order < 0 else node.right
        entry = _Entry(item, parent)
        if parent is None:
            self._root = entry
        elif order < 0:
            parent.left = entry
        else:
            parent.right = entry
        self._rebalance(entry)

    def __iter__(self):  # type: ignore[no-untyped-def]
        stack: list[_Entry[T]] = []
        node = self._root
        while stack or node is not None:
            while node is not None:
                stack.append(node)
                node = node.left
            node = stack.pop()
            yield node.item
            node = node.right

    def _rebalance(self, node: _Entry[T]) -> None:
        while node.parent is not None and node.parent.red:
            parent = node.parent
            grandparent = parent.parent
            assert grandparent is not None
            parent_is_left = parent is grandparent.left
            uncle = grandparent.right if parent_is_left else grandparent.left
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                grandparent.red = True
                node = grandparent
                continue
            if node is (parent.right if parent_is_left else parent.left):
                node = parent
                self._rotate(node, to_left=parent_is_left)
                parent = node.parent  # type: ignore[assignment]
            parent.red = False
            grandparent.red = True
            self._rotate(grandparent, to_left=not parent_is_left)
        assert self._root is not None
        self._root.red = False

    def _rotate(self, node: _Entry[T], *, to_left: bool) -> None:
        child = node.right if to_left else node.left
        assert child is not None
        inner = child.left if to_left else child.right
        if to_left:
            node.right, child.left = inner, node
        else:
            node.left, child.right = inner, node
        if inner is not None:
            inner.parent = node
        child.parent = node.parent
        if node.parent is None:
            self._root = child
        elif node.parent.left is node:
            node.parent.left = child
        else:
            node.parent.right = child
        node.parent = child
