"""Rows travel in parcels: each of one topic, for one place, in the order they were sent."""

from __future__ import annotations

from headrace.record import NO_HEADERS
from headrace.spark.parcels import DRIVER, REPORT, ROWS_IN_PARCEL, Parcel, ParcelWriter
from headrace.spark.ranges import Row
from headrace.spark.results import sort_out


def row(number: int) -> Row:
    return (number, 1_000 + number, b"key", None, NO_HEADERS)


def summary(parcel: Parcel) -> tuple[int, int, str, int, int]:
    return (parcel.destination, parcel.partition, parcel.topic, parcel.first, parcel.rows)


def test_rows_come_out_as_they_went_in() -> None:
    rows: list[Row] = [
        (1, 10, b"k", b"v", NO_HEADERS),
        (2, -1, None, None, (("a", b"1"), ("b", None))),
        (1 << 62, 1 << 40, b"", b"\x00\xff", NO_HEADERS),
    ]
    out = ParcelWriter()
    out.place(1, 0, "t").extend(rows)
    (parcel,) = out.take()
    opened = parcel.open()
    assert [tuple(each[:4]) for each in opened] == [each[:4] for each in rows]
    assert [tuple(map(tuple, each[4])) for each in opened] == [(), (("a", b"1"), ("b", None)), ()]


def test_each_place_has_parcels_of_its_own() -> None:
    out = ParcelWriter()
    out.place(1, 0, "t").append(row(4))
    out.place(1, 1, "t").append(row(5))
    out.place(1, 0, "u").append(row(6))
    out.place(1, 0, "t").append(row(7))
    out.place(DRIVER, 0, "t").append(row(8))
    assert sorted(map(summary, out.take())) == [
        (DRIVER, 0, "t", 0, 1),
        (1, 0, "t", 4, 2),
        (1, 0, "u", 6, 1),
        (1, 1, "t", 5, 1),
    ]
    assert list(out.take()) == [], "what was taken is gone"


def test_what_is_for_the_driver_is_numbered_in_its_order() -> None:
    out = ParcelWriter()
    for number in range(3):
        out.place(DRIVER, 0, "t").append(row(-1))
        out.pack(1)
        assert number == next(out.take()).first


def test_only_full_places_are_packed_on_the_way() -> None:
    out = ParcelWriter()
    many, few = out.place(1, 0, "t"), out.place(1, 1, "t")
    many.extend(map(row, range(ROWS_IN_PARCEL)))
    few.append(row(1))
    out.pack()
    assert (len(many), len(few)) == (0, 1)
    many.append(row(ROWS_IN_PARCEL))
    assert [summary(parcel) for parcel in out.take()] == [
        (1, 0, "t", 0, ROWS_IN_PARCEL),
        (1, 0, "t", ROWS_IN_PARCEL, 1),
        (1, 1, "t", 1, 1),
    ]


def test_a_place_without_rows_sends_nothing() -> None:
    out = ParcelWriter()
    out.place(1, 0, "t")
    assert list(out.take()) == []


def test_results_are_told_from_reports() -> None:
    out = ParcelWriter()
    out.place(DRIVER, 0, "out").extend([row(0), row(1)])
    out.place(DRIVER, 0, REPORT)
    outputs, reports = sort_out(out.take())
    assert len(outputs) == 2
    assert [(topic, len(rows)) for topic, rows in outputs] == [("out", 2)]
    assert reports == []
