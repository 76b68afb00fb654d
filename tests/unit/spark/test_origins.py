"""Rows of several upstream tasks, merged by time."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from headrace.record import NO_HEADERS
from headrace.spark.origins import merge_origins
from headrace.spark.ranges import Row


def rows(origin: str, *times: int) -> list[Row]:
    return [(number, time, f"{origin}{number}".encode(), None, NO_HEADERS) for number, time in enumerate(times)]


def pieces(rows: list[Row], size: int) -> Iterator[list[Row]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def keys(origins: list[list[Row]], size: int = 100) -> list[bytes | None]:
    return [row[2] for merged in merge_origins([pieces(origin, size) for origin in origins]) for row in merged]


def test_one_origin_stays_as_it_is() -> None:
    assert keys([rows("a", 5, 3, 9)]) == [b"a0", b"a1", b"a2"]


def test_the_least_time_of_those_that_are_next_goes_first() -> None:
    assert keys([rows("a", 10, 30), rows("b", 5, 20, 40)]) == [b"b0", b"a0", b"b1", b"a1", b"b2"]


def test_an_origin_keeps_its_own_order_though_it_is_out_of_time() -> None:
    assert keys([rows("a", 10, 2, 30), rows("b", 5, 20)]) == [b"b0", b"a0", b"a1", b"b1", b"a2"]


def test_equal_times_go_by_origin() -> None:
    assert keys([rows("a", 1, 1), rows("b", 1)]) == [b"a0", b"a1", b"b0"]


def one_by_one(origins: list[list[Row]]) -> list[bytes | None]:
    """What the merge is by its definition."""
    waiting = [list(origin) for origin in origins]
    merged: list[bytes | None] = []
    times = [-1] * len(waiting)
    while any(waiting):
        turns = [(max(times[at], origin[0][1]), at) for at, origin in enumerate(waiting) if origin]
        time, at = min(turns)
        times[at] = time
        merged.append(waiting[at].pop(0)[2])
    return merged


@given(st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=20), min_size=1, max_size=4), st.integers(1, 5))
def test_however_small_the_pieces_the_order_is_the_same(times: list[list[int]], size: int) -> None:
    origins = [rows("abcd"[at], *each) for at, each in enumerate(times)]
    assert keys(origins, size) == one_by_one(origins)
