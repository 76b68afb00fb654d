"""The checker itself: hand-made histories that keep every rule, and one that breaks each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.serdes.hashing import partition_for_key
from tests.histories.checker import (
    AHEAD,
    BACK_IN_TIME,
    DISAGREEMENT,
    INCOMPLETE,
    NEVER_COMMITTED,
    TOO_STALE,
    UNANSWERED,
    WRONG_ABSENCE,
    WRONG_VALUE,
    Committed,
    by_rule,
    check,
)
from tests.histories.committed import Ends, Log, Record, Sample
from tests.histories.history import Place, Read, Span, Value

PARTITIONS = 2
KEYS = [f"key-{number}" for number in range(20)]
A, B, NEVER_THERE = [key for key in KEYS if partition_for_key(key.encode(), PARTITIONS) == 0][:3]
ELSEWHERE = next(key for key in KEYS if partition_for_key(key.encode(), PARTITIONS) == 1)


def value(number: int) -> Value:
    return Value.of({"orders": number}, 1000 + number)


def log(*records: tuple[int, str, int | None]) -> Log:
    return Log(Record(offset, Place(key), None if number is None else value(number)) for offset, key, number in records)


# Offsets 2, 5 and 8 are the markers of transactions; 6 and 7 were aborted.
COMMITTED = Committed(
    {
        ("n", 0): log((0, A, 1), (1, B, 1), (3, A, 2), (4, B, None), (9, A, 4)),
        ("n", 1): log((0, ELSEWHERE, 7)),
    },
    Ends(
        [
            Sample(10.0, 10.1, {("n", 0): 3, ("n", 1): 2}),
            Sample(20.0, 20.1, {("n", 0): 6, ("n", 1): 2}),
            Sample(30.0, 30.1, {("n", 0): 11, ("n", 1): 2}),
            Sample(40.0, 40.1, {("n", 0): 11, ("n", 1): 2}),
        ]
    ),
    PARTITIONS,
)


def get(key: str, number: int | None, position: int, at: float = 35.0, **more: Any) -> Read:
    """A key that was answered with a value, or with none, at a position of partition 0."""
    entries = {} if number is None else {Place(key): value(number)}
    status = 404 if number is None else 200
    return Read(1, "one", "n", Span.of_key(key), at, at + 0.1, status, entries, {0: position}, **more)


def page(entries: dict[str, int], positions: dict[int, int], at: float = 35.0, **more: Any) -> Read:
    """All keys, as one page."""
    found = {Place(key): value(number) for key, number in entries.items()}
    return Read(1, "one", "n", Span("", "z"), at, at + 0.1, 200, found, positions, **more)


def rules(*reads: Read, must_be_answered: bool = False) -> list[str]:
    """The rules that a history breaks."""
    violations = check(reads, COMMITTED, lambda read: must_be_answered)
    assert sum(by_rule(violations).values()) == len(violations)
    return [violation.rule for violation in violations]


@pytest.mark.parametrize(
    "read",
    [
        get(A, 1, 1, at=5.0),
        get(A, 1, 3, at=15.0),
        get(A, 2, 6),
        get(A, 4, 11),
        get(B, None, 5),
        get(B, None, 0),
        get(NEVER_THERE, None, 11),
        # Fresher than it says, up to what was committed when it came.
        get(A, 2, 3, at=15.0),
        get(A, 4, 3),
        get(B, None, 3, at=15.0),
        # As old as it says.
        get(A, 1, 3, at=21.0, staleness_ms=1000),
        get(A, 2, 6, at=21.0, staleness_ms=500, max_staleness_ms=600),
        get(A, 2, 6, min_position={0: 6, 1: 99}),
        get(A, 2, 3, at=15.0, min_position={0: 3}),
        page({A: 2, ELSEWHERE: 7}, {0: 6, 1: 2}),
        page({A: 2, B: 1, ELSEWHERE: 7}, {0: 4, 1: 2}),
        page({ELSEWHERE: 7}, {1: 2}, missing=frozenset({0})),
        # A client that tells no positions.
        replace(get(A, 2, 0, at=21.0, max_staleness_ms=500), positions=None),
        Read(1, "one", "n", Span.of_key(A), 35.0, 35.1, 503),
        Read(1, "one", "n", Span.of_key(A), 35.0, 35.1, None),
    ],
)
def test_what_is_right_breaks_no_rule(read: Read) -> None:
    assert rules(read) == []


def test_a_page_with_another_one_behind_it_is_whole_up_to_its_last_key() -> None:
    first, second = sorted((A, ELSEWHERE))
    numbers = {A: 2, ELSEWHERE: 7}
    whole = page({first: numbers[first]}, {0: 6, 1: 2}, last=Place(first))
    assert rules(whole) == []
    assert rules(replace(whole, last=None)) == [WRONG_VALUE]
    assert rules(replace(whole, entries={}, last=Place(second))) == [WRONG_VALUE, WRONG_VALUE]


def test_a_value_older_than_its_position() -> None:
    assert rules(get(A, 1, 4)) == [WRONG_VALUE]


def test_a_value_newer_than_what_was_committed_by_then() -> None:
    assert rules(get(A, 4, 3, at=15.0)) == [WRONG_VALUE]


def test_a_page_whose_entries_never_were_there_together() -> None:
    assert rules(page({A: 4, B: 1, ELSEWHERE: 7}, {0: 3, 1: 2})) == [WRONG_VALUE]


def test_an_entry_that_a_page_lacks() -> None:
    assert rules(page({ELSEWHERE: 7}, {0: 6, 1: 2})) == [WRONG_VALUE]


def test_an_entry_of_a_partition_that_is_said_to_be_missing() -> None:
    assert rules(page({A: 2, ELSEWHERE: 7}, {1: 2}, missing=frozenset({0}))) == [WRONG_VALUE]


def test_a_key_that_is_there_and_said_to_be_absent() -> None:
    assert rules(get(A, None, 3)) == [WRONG_ABSENCE]
    assert rules(get(B, None, 2, at=5.0)) == [WRONG_ABSENCE]


def test_a_key_that_is_absent_and_said_to_be_there() -> None:
    assert rules(get(B, 1, 5)) == [WRONG_VALUE]


def test_a_value_of_an_aborted_transaction() -> None:
    assert rules(get(A, 3, 6)) == [NEVER_COMMITTED]
    assert rules(page({A: 3, ELSEWHERE: 7}, {0: 6, 1: 2})) == [NEVER_COMMITTED]


def test_a_value_that_another_key_has_had() -> None:
    assert rules(get(NEVER_THERE, 1, 6)) == [NEVER_COMMITTED]


def test_a_position_behind_the_one_that_was_asked_for() -> None:
    assert rules(get(A, 2, 5, min_position={0: 6})) == [BACK_IN_TIME]


def test_content_behind_the_position_that_was_asked_for() -> None:
    assert rules(replace(get(A, 1, 0, min_position={0: 4}), positions=None)) == [BACK_IN_TIME]


def test_instances_that_disagree() -> None:
    one, other = get(A, 2, 6, at=21.0), replace(get(A, 1, 6, at=22.0), instance="other")
    assert rules(one, other) == [WRONG_VALUE]
    # Where nothing changed meanwhile, one of them is wrong, whatever the log has.
    assert sorted(rules(get(B, None, 6), replace(get(B, 1, 6), instance="other"))) == [DISAGREEMENT, WRONG_VALUE]
    # The one is fresher than the other: the key changed meanwhile.
    assert rules(get(A, 2, 6, at=21.0), get(A, 4, 6, at=31.0)) == []


def test_an_answer_that_is_older_than_it_says() -> None:
    assert rules(get(A, 1, 3, at=21.0, staleness_ms=500)) == [TOO_STALE]
    assert rules(replace(get(A, 1, 0, at=21.0, max_staleness_ms=500), positions=None)) == [TOO_STALE]


def test_an_answer_that_is_older_than_was_asked_for() -> None:
    assert rules(get(A, 2, 6, at=21.0, staleness_ms=700, max_staleness_ms=600)) == [TOO_STALE]
    assert rules(get(A, 2, 6, at=21.0, staleness_ms=None, max_staleness_ms=600)) == [TOO_STALE]


def test_a_position_that_was_not_there_yet() -> None:
    assert rules(get(A, 2, 7, at=15.0)) == [AHEAD]


def test_a_partition_that_nobody_speaks_of() -> None:
    assert rules(page({ELSEWHERE: 7}, {1: 2})) == [INCOMPLETE]
    assert rules(replace(get(A, 2, 6), positions={})) == [INCOMPLETE, WRONG_VALUE]
    assert rules(replace(get(A, 2, 6), positions={1: 2})) == [INCOMPLETE, WRONG_VALUE]


def test_a_request_that_fails() -> None:
    assert rules(Read(1, "one", "n", Span.of_key(A), 35.0, 35.1, 500)) == [UNANSWERED]
    for status in (503, None):
        assert rules(Read(1, "one", "n", Span.of_key(A), 35.0, 35.1, status), must_be_answered=True) == [UNANSWERED]
    half = page({ELSEWHERE: 7}, {1: 2}, missing=frozenset({0}))
    assert rules(half, must_be_answered=True) == [UNANSWERED]
    assert rules(get(A, 4, 11), get(B, None, 11), must_be_answered=True) == []
