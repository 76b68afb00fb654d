"""Rows of several upstream tasks, merged by time."""

from __future__ import annotations

from headrace.record import NO_HEADERS
from headrace.spark.rows import Row
from headrace.spark.worker import merge_origins


def rows(origin: str, *times: int) -> list[Row]:
    return [(number, time, f"{origin}{number}".encode(), None, NO_HEADERS) for number, time in enumerate(times)]


def keys(origins: list[list[Row]]) -> list[bytes | None]:
    return [row[2] for row in merge_origins(origins)]


def test_one_origin_stays_as_it_is() -> None:
    assert keys([rows("a", 5, 3, 9)]) == [b"a0", b"a1", b"a2"]


def test_the_least_time_of_those_that_are_next_goes_first() -> None:
    assert keys([rows("a", 10, 30), rows("b", 5, 20, 40)]) == [b"b0", b"a0", b"b1", b"a1", b"b2"]


def test_an_origin_keeps_its_own_order_though_it_is_out_of_time() -> None:
    assert keys([rows("a", 10, 2, 30), rows("b", 5, 20)]) == [b"b0", b"a0", b"a1", b"b1", b"a2"]


def test_equal_times_go_by_origin() -> None:
    assert keys([rows("a", 1, 1), rows("b", 1)]) == [b"a0", b"a1", b"b0"]
