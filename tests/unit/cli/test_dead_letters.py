from __future__ import annotations

import pytest

from headrace.cli.dead_letters import DeadLetter, readable


@pytest.mark.parametrize(
    ("content", "text"),
    [(None, "null"), (b"", ""), ("größer\n".encode(), "größer\n"), (b"\x00\x01", "0x0001"), (b"\xff", "0xff")],
)
def test_bytes_are_text_where_they_are_text(content: bytes | None, text: str) -> None:
    assert readable(content) == text


def test_a_letter_tells_what_went_wrong_and_where_it_came_from() -> None:
    letter = DeadLetter(
        "dead",
        0,
        4,
        1_700_000_000_123,
        b"k",
        None,
        (
            ("shop", b"7"),
            ("__streams.errors.exception", b"ValueError"),
            ("__streams.errors.message", b"no price"),
            ("__streams.errors.stacktrace", b"Traceback\n  here"),
            ("__streams.errors.topic", b"orders"),
            ("__streams.errors.partition", b"2"),
            ("__streams.errors.offset", b"57"),
        ),
    )
    lines = [
        "dead partition 0 offset 4, 2023-11-14 22:13:20.123+00:00",
        "  key    k",
        "  value  null",
        "  error  ValueError: no price",
        "  from   orders partition 2 offset 57",
        "  header shop: 7",
    ]

    assert list(letter.lines()) == lines
    assert list(letter.lines(stack_trace=True)) == [*lines, "    Traceback", "      here"]
