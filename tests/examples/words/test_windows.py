"""The windows of the words application on the test driver."""

from __future__ import annotations

from functools import partial

import pytest
from py4j.java_gateway import JavaGateway

from examples.words.suppression import UNTIL_TIME_LIMIT, UNTIL_WINDOW_CLOSES
from examples.words.suppression import define as define_suppressed
from examples.words.tables import WORDS
from examples.words.windows import KINDS, TIMES, WINDOWED, define, define_with_grace, shown, side_by_side
from headrace import Suppressed
from headrace.errors import BufferFullError, ProcessingFailed
from headrace.testing import TopologyTestDriver
from tests.examples.words.running import EIGHT, SECOND, build
from tests.oracle.parity import CACHES, difference
from tests.oracle.scenario import Scenario
from tests.oracle.scenario import pipe as event

# --- kinds of windows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # 08:00:00    A    A    A         .    A
        #             0    4    6              14
        ("tumbling", {"00-05": 2, "05-10": 1, "10-15": 1}),
        ("hopping", {"57-02": 1, "00-05": 2, "03-08": 2, "06-11": 1, "12-17": 1}),
        (
            "sliding",
            {"55-00": 1, "59-04": 2, "00.001-05.001": 1, "01-06": 2, "04.001-09.001": 1, "09-14": 1},
        ),
        ("session", {"00-06": 3, "14-14": 1}),
    ],
)
def test_words_are_counted_in_each_kind_of_windows(kind: str, expected: dict[str, int]) -> None:
    with TopologyTestDriver(build(partial(define, kind=kind))) as driver:
        for seconds in (0, 4, 6, 14):
            driver.input_topic(WORDS).pipe("A", "Apple", timestamp=EIGHT + seconds * SECOND)
        results = driver.output_topic(WINDOWED).read_map()

    counts = {_seconds(shown(key)): count for key, count in results.items() if count is not None}
    assert counts == expected


def _seconds(text: str) -> str:
    """ "A 07:59:57-08:00:02" as "57-02"."""
    start, end = text.removeprefix("A ").split("-")
    return f"{start[6:]}-{end[6:]}"


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_windows_is_that_of_kafka_streams(gateway: JavaGateway, kind: str) -> None:
    events = [event(WORDS, key, "word", EIGHT + at * SECOND) for key, at in zip("AABAA", (0, 4, 6, 1, 14), strict=True)]
    draw = partial(define, kind=kind)

    assert difference(gateway, Scenario("words", kind, lambda b: draw(b), events), 0) is None


# --- kinds of time -----------------------------------------------------------------------------------------------


def counts_by_time() -> dict[str, dict[str, int]]:
    """All windows of two words: made at 08:00:01 and 08:00:04, appended at 08:00:06, processed at 08:00:12."""
    with TopologyTestDriver(build(side_by_side), initial_wall_clock=EIGHT + 12 * SECOND) as driver:
        for made in (1, 4):
            driver.input_topic("words-event-time").pipe("A", "Apple", timestamp=EIGHT + made * SECOND)
            driver.input_topic("words-ingestion-time").pipe("A", "Apple", timestamp=EIGHT + 6 * SECOND)
            driver.input_topic("words-processing-time").pipe("A", "Apple", timestamp=EIGHT + made * SECOND)
        return {time: driver.output_topic(f"windows-{time}").read_map() for time in TIMES}


def test_each_kind_of_time_has_windows_of_its_own() -> None:
    counts = counts_by_time()

    tumbling = {time: {key: count for key, count in counts[time].items() if "tumbling" in key} for time in TIMES}
    assert tumbling == {
        "event-time": {"tumbling A 08:00:00-08:00:05": 2},
        "ingestion-time": {"tumbling A 08:00:05-08:00:10": 2},
        "processing-time": {"tumbling A 08:00:10-08:00:15": 2},
    }
    sessions = {time: [key for key, count in counts[time].items() if "session" in key and count == 2] for time in TIMES}
    assert sessions == {
        "event-time": ["session A 08:00:01-08:00:04"],
        "ingestion-time": ["session A 08:00:06-08:00:06"],
        "processing-time": ["session A 08:00:12-08:00:12"],
    }


def test_every_kind_of_windows_is_on_every_kind_of_time() -> None:
    for counts in counts_by_time().values():
        assert {key.split()[0] for key in counts} == set(KINDS)


def test_side_by_side_is_as_by_kafka_streams(gateway: JavaGateway) -> None:
    moments = {"words-event-time": (0, 4, 6, 1), "words-ingestion-time": (0, 4, 6, 7)}
    events = [event(topic, "A", "Apple", EIGHT + at * SECOND) for topic, ats in moments.items() for at in ats]

    assert difference(gateway, Scenario("words", "side by side", side_by_side, events), None) is None


# --- late records ------------------------------------------------------------------------------------------------


def at(time: str) -> int:
    """A time after 8 o'clock, minutes and seconds, in milliseconds."""
    minutes, seconds = map(int, time.split(":"))
    return EIGHT + (minutes * 60 + seconds) * SECOND


FIVE = ("0:04", "0:54", "1:05", "0:58", "1:13")


def test_a_window_of_a_minute_takes_late_words_for_15_seconds() -> None:
    with TopologyTestDriver(build(define_with_grace)) as driver:
        counts = driver.output_topic(WINDOWED)

        def piped(time: str) -> list[tuple[str, int]]:
            driver.input_topic(WORDS).pipe("A", "Apple", timestamp=at(time))
            return [(shown(key), count) for key, count in counts.read_key_values()]

        first, second = "A 08:00:00-08:01:00", "A 08:01:00-08:02:00"
        assert [piped(time) for time in FIVE] == [
            [(first, 1)],
            [(first, 2)],
            [(second, 1)],
            [(first, 3)],  # five seconds after the end of its window
            [(second, 2)],
        ]
        assert piped("1:14") == [(second, 3)]
        assert piped("0:59") == [(first, 4)]  # 14 seconds
        assert piped("1:15") == [(second, 4)]
        assert piped("0:59") == []  # 15 seconds: the window is closed
        assert driver.dropped_records.total() == 1


def test_late_words_are_taken_as_by_kafka_streams(gateway: JavaGateway) -> None:
    events = [event(WORDS, "A", "Apple", at(time)) for time in (*FIVE, "1:15", "0:59")]

    assert difference(gateway, Scenario("words", "grace", define_with_grace, events), None) is None


# --- suppress ----------------------------------------------------------------------------------------------------

LETTERS = ((0, "A"), (1, "A"), (2, "B"), (3, "C"), (4, "A"), (6, "A"))
"""Seconds after 8 o'clock: all but the last are in one window of five seconds."""


def emitted(suppressed: Suppressed) -> list[tuple[int, str, int]]:
    """What comes out: at which second, of which letter, and the count."""
    found = []
    with TopologyTestDriver(build(partial(define_suppressed, suppressed=suppressed))) as driver:
        for second, letter in LETTERS:
            driver.input_topic(WORDS).pipe(letter, "word", timestamp=EIGHT + second * SECOND)
            found += [(second, key.key, count) for key, count in driver.output_topic(WINDOWED).read_key_values()]
    return found


def test_a_window_comes_out_once_when_it_is_closed() -> None:
    assert emitted(UNTIL_WINDOW_CLOSES["unbounded"]) == [(6, "A", 3), (6, "B", 1), (6, "C", 1)]


def test_an_update_comes_out_when_the_time_limit_has_passed() -> None:
    assert emitted(UNTIL_TIME_LIMIT["unbounded"]) == [(6, "A", 3)]


@pytest.mark.parametrize("buffer", ["2 records, then early", "150 bytes, then early"])
def test_a_full_buffer_lets_the_oldest_update_go_early(buffer: str) -> None:
    assert emitted(UNTIL_TIME_LIMIT[buffer]) == [(3, "A", 2), (4, "B", 1), (6, "C", 1)]


STRICT = [
    settings[name]
    for settings in (UNTIL_WINDOW_CLOSES, UNTIL_TIME_LIMIT)
    for name in ("2 records, then stop", "150 bytes, then stop")
]


@pytest.mark.parametrize("suppressed", STRICT)
def test_a_full_buffer_that_must_not_let_go_stops_the_application(suppressed: Suppressed) -> None:
    with pytest.raises(ProcessingFailed, match="buffer exceeded its max capacity") as stopped:
        emitted(suppressed)
    assert isinstance(stopped.value.__cause__, BufferFullError)


@pytest.mark.parametrize("cache", CACHES.values(), ids=CACHES.keys())
@pytest.mark.parametrize("suppressed", [*UNTIL_WINDOW_CLOSES.values(), *UNTIL_TIME_LIMIT.values()])
def test_suppress_is_that_of_kafka_streams(gateway: JavaGateway, suppressed: Suppressed, cache: int | None) -> None:
    events = [event(WORDS, letter, "word", EIGHT + second * SECOND) for second, letter in LETTERS]
    draw = partial(define_suppressed, suppressed=suppressed)

    assert difference(gateway, Scenario("words", str(suppressed), lambda b: draw(b), events), cache) is None
