from __future__ import annotations

from headrace.task.priority_queue import PriorityQueue


def drained(queue: PriorityQueue[tuple[int, str]]) -> str:
    return "".join(queue.poll()[1] for _ in range(len(queue)))  # type: ignore[index]


def test_the_least_comes_first() -> None:
    queue: PriorityQueue[tuple[int, str]] = PriorityQueue(lambda element: element[0])
    for element in [(5, "e"), (1, "a"), (4, "d"), (2, "b"), (3, "c")]:
        queue.offer(element)
    assert queue.peek() == (1, "a")
    assert drained(queue) == "abcde"
    assert queue.peek() is None
    assert queue.poll() is None


def test_ties_leave_in_the_order_of_javas_heap_not_of_arrival() -> None:
    # As java.util.PriorityQueue gives them: the last element is moved to the top at each poll.
    queue: PriorityQueue[tuple[int, str]] = PriorityQueue(lambda element: element[0])
    for name in "abcde":
        queue.offer((7, name))
    assert drained(queue) == "aedcb"
