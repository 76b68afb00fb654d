"""Shows what the topologies make of a few words: python -m examples.words SUBJECT"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from pathlib import Path

from headrace import StreamsBuilder, StreamsConfig, Suppressed, Topology
from headrace.errors import StreamsError, TopologyError
from headrace.kafka.partitions import plan_partitions
from headrace.testing import TopologyTestDriver

from . import aggregations, caching, joins, suppression, tables, windows
from .aggregations import AGGREGATED, COUNTED, REDUCED
from .joins import ABBREVIATIONS, ALPHABETS, JOINED
from .tables import WORDS
from .windows import WINDOWED, clock, shown

EIGHT = 8 * 60 * 60 * 1000
"""08:00:00 in milliseconds."""


def build(draw: Callable[[StreamsBuilder], object]) -> Topology:
    """The topology that a function draws."""
    builder = StreamsBuilder()
    draw(builder)
    return builder.build()


def show_tables() -> None:
    """The latest word of each letter; without a key there is none."""
    for draw, store in ((tables.table, "words-store"), (tables.global_table, "words-global-store")):
        with TopologyTestDriver(build(draw)) as driver:
            driver.input_topic(WORDS).pipe_all([("A", "Apple"), ("B", "Bus"), (None, "Nobody"), ("A", "Ant")])
            print(f"{store}: {dict(driver.store(store).all())}")


def show_aggregations() -> None:
    """The words of each letter; one without a key is left out."""
    for name, topic in zip(aggregations.AGGREGATIONS, (COUNTED, REDUCED, AGGREGATED), strict=True):
        with TopologyTestDriver(build(partial(aggregations.define, group="by_letter", combine=name))) as driver:
            words = [("A", "Apple"), ("B", "Bus"), ("A", "Alpha"), (None, "Nobody"), ("A", "Ant")]
            driver.input_topic(WORDS).pipe_all(words)
            for letter, result in driver.output_topic(topic).read_map().items():
                print(f"{name} {letter}: {result}")


def show_joins() -> None:
    """What each kind of join makes of the same records."""
    for name in joins.JOINS:
        print(f"{name}:")
        with TopologyTestDriver(joins.topology(name)) as driver:
            words, letters = driver.input_topic(ABBREVIATIONS), driver.input_topic(ALPHABETS)
            words.pipe("A", "Apple", timestamp=0)
            letters.pipe("A", "A is the first letter in English Alphabets.", timestamp=3_000)
            words.pipe("A", "Ant", timestamp=6_000)
            letters.pipe("B", "B is the second letter in English Alphabets.", timestamp=7_000)
            words.pipe("C", "Cat", timestamp=8_000)
            words.pipe("A", "Alpha", timestamp=20_000)
            for key, both in driver.output_topic(JOINED).read_key_values():
                print(f"  {key} {both.abbreviation}: {both.description}")


def show_copartitioning() -> None:
    """Topics with different numbers of partitions cannot be joined as they are."""
    counts = {ABBREVIATIONS: 2, ALPHABETS: 4}
    try:
        plan_partitions(joins.topology("stream_table"), counts)
    except TopologyError as error:
        print(str(error).replace(f"{Path(__file__).parents[2]}/", ""))
    for name in ("repartitioned", "stream_global"):
        print(f"{name}: {dict(plan_partitions(joins.topology(name), counts).sources)}")


def show_windows() -> None:
    """Every kind of windows on every kind of time, for the same four words; the last one is late."""
    with TopologyTestDriver(build(windows.side_by_side), initial_wall_clock=EIGHT) as driver:
        for made, appended, processed in ((0, 0, 9), (4, 4, 9), (6, 6, 9), (1, 7, 12)):
            driver.advance_wall_clock(timedelta(milliseconds=EIGHT + processed * 1000 - driver.wall_clock))
            driver.input_topic("words-event-time").pipe("A", "Apple", timestamp=EIGHT + made * 1000)
            driver.input_topic("words-ingestion-time").pipe("A", "Apple", timestamp=EIGHT + appended * 1000)
            driver.input_topic("words-processing-time").pipe("A", "Apple", timestamp=EIGHT + made * 1000)
        for time in windows.TIMES:
            print(f"{time}:")
            for key, count in sorted(driver.output_topic(f"windows-{time}").read_map().items()):
                if count is not None:
                    print(f"  {key} {count}")


def show_grace() -> None:
    """Windows of a minute that take late records for 15 seconds more."""
    with TopologyTestDriver(build(windows.define_with_grace)) as driver:
        counts = driver.output_topic(WINDOWED)
        for time in ("0:04", "0:54", "1:05", "0:58", "1:13", "1:15", "0:59"):
            minutes, seconds = map(int, time.split(":"))
            timestamp = EIGHT + (minutes * 60 + seconds) * 1000
            driver.input_topic(WORDS).pipe("A", "Apple", timestamp=timestamp)
            results = [f"{shown(key)} has {count}" for key, count in counts.read_key_values()]
            print(f"{clock(timestamp)}: {', '.join(results) or 'too late'}")


def show_suppression() -> None:
    """What comes out of each setting of `suppress`, and when."""
    for title, settings in (
        ("until the window closes", suppression.UNTIL_WINDOW_CLOSES),
        ("until five seconds have passed", suppression.UNTIL_TIME_LIMIT),
    ):
        for name, suppressed in settings.items():
            print(f"{title}, {name}:")
            for line in suppressed_counts(suppressed):
                print(f"  {line}")


def suppressed_counts(suppressed: Suppressed) -> Iterable[str]:
    """What came out at the time of each word."""
    with TopologyTestDriver(build(partial(suppression.define, suppressed=suppressed))) as driver:
        for seconds, letter in ((0, "A"), (1, "A"), (2, "B"), (3, "C"), (4, "A"), (6, "A")):
            timestamp = EIGHT + seconds * 1000
            try:
                driver.input_topic(WORDS).pipe(letter, "word", timestamp=timestamp)
            except StreamsError as error:
                yield f"{clock(timestamp)} stopped: {error.__cause__}"
                return
            for key, count in driver.output_topic(WINDOWED).read_key_values():
                yield f"{clock(timestamp)} {shown(key)} has {count}"


def show_caching() -> None:
    """The counts that go on, for the same five words."""
    for name, config in caching.SETTINGS.items():
        print(f"{name}: {', '.join(f'{letter}={count}' for letter, count in counts_with(config))}")


def counts_with(config: StreamsConfig) -> list[tuple[str, int]]:
    """The counts. The driver commits after so many words, as the application does after so much time."""
    words_per_commit = 2 if config.commit_interval == caching.short else 5
    topology = build(partial(aggregations.define, group="by_letter", combine="count"))
    with TopologyTestDriver(topology, config, commit=words_per_commit) as driver:
        driver.input_topic(WORDS).pipe_all([("A", "Apple"), ("A", "Alpha"), ("B", "Bus"), ("A", "Ant"), ("B", "Baby")])
        driver.commit()
        return driver.output_topic(COUNTED).read_key_values()


SUBJECTS: dict[str, Callable[[], None]] = {
    "tables": show_tables,
    "aggregations": show_aggregations,
    "joins": show_joins,
    "copartitioning": show_copartitioning,
    "windows": show_windows,
    "grace": show_grace,
    "suppression": show_suppression,
    "caching": show_caching,
}

if __name__ == "__main__":
    logging.getLogger("headrace").setLevel(logging.CRITICAL)
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    if wanted not in SUBJECTS:
        sys.exit(f"python -m examples.words SUBJECT, one of {', '.join(SUBJECTS)}")
    SUBJECTS[wanted]()
