"""A priority queue that breaks ties as Java's does, since the order of equal elements can be seen in the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PriorityQueue(Generic[T]):
    """A binary heap with the sifting rules of java.util.PriorityQueue."""

    __slots__ = ("_priority", "heap")

    def __init__(self, priority: Callable[[T], int]) -> None:
        self._priority = priority
        self.heap: list[T] = []
        """The elements, the least one first."""

    def __len__(self) -> int:
        return len(self.heap)

    def peek(self) -> T | None:
        """The least element."""
        return self.heap[0] if self.heap else None

    def offer(self, element: T) -> None:
        """Adds an element."""
        heap = self.heap
        heap.append(element)
        if len(heap) > 1:
            self._sift_up(len(heap) - 1, element)

    def poll(self) -> T | None:
        """Takes the least element out."""
        heap = self.heap
        if not heap:
            return None
        last = heap.pop()
        if not heap:
            return last
        least = heap[0]
        self._sift_down(last)
        return least

    def clear(self) -> None:
        """Takes everything out."""
        self.heap.clear()

    def _sift_up(self, index: int, element: T) -> None:
        heap, priority = self.heap, self._priority
        value = priority(element)
        while index > 0:
            parent = (index - 1) >> 1
            above = heap[parent]
            if value >= priority(above):
                break
            heap[index] = above
            index = parent
        heap[index] = element

    def _sift_down(self, element: T) -> None:
        heap, priority = self.heap, self._priority
        value = priority(element)
        size = len(heap)
        half = size >> 1
        index = 0
        while index < half:
            child = 2 * index + 1
            right = child + 1
            if right < size and priority(heap[child]) > priority(heap[right]):
                child = right
            if value <= priority(heap[child]):
                break
            heap[index] = heap[child]
            index = child
        heap[index] = element
