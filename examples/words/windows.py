"""Words counted in windows: four kinds of windows, on three kinds of time, and records that are late."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from headrace import (
    Consumed,
    KGroupedStream,
    KTable,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    WallclockTimestampExtractor,
    Windowed,
)
from headrace.kafka.topics import TopicSpec

from .aggregations import by_letter, number
from .tables import stream, text

WINDOWED = "windowed-words"
"""The store, and the topic with what changes in it."""
FIVE_SECONDS = timedelta(seconds=5)

Windows = TimeWindows | SlidingWindows | SessionWindows

tumbling = TimeWindows(size=FIVE_SECONDS)
"""Windows of five seconds, one after the other."""
hopping = TimeWindows(size=FIVE_SECONDS, advance=timedelta(seconds=3))
"""Windows of five seconds, one every three: they overlap, and a record may be in two."""
sliding = SlidingWindows(time_difference=FIVE_SECONDS)
"""A window for every set of records that are at most five seconds apart."""
session = SessionWindows(gap=FIVE_SECONDS)
"""Windows that last as long as records come within five seconds of each other."""

KINDS: dict[str, Windows] = {"tumbling": tumbling, "hopping": hopping, "sliding": sliding, "session": session}


# --- one kind ----------------------------------------------------------------------------------------------------


def count(letters: KGroupedStream, windows: Windows = tumbling) -> KTable:
    """How often each letter came in each window."""
    counts: KTable = letters.windowed_by(windows).count(Materialized(WINDOWED, key=text, value=number))
    return counts


def write(counts: KTable, size: timedelta = FIVE_SECONDS) -> None:
    """Sends counts of windows of that size to their topic."""
    counts.to_stream().to(WINDOWED, Produced(Serdes.windowed(text, size), number))


def define(builder: StreamsBuilder, kind: str) -> None:
    """Draws the topology with one kind of windows."""
    counts = count(by_letter(stream(builder)), KINDS[kind])
    if kind == "session":
        counts.to_stream().to(WINDOWED, Produced(Serdes.session_windowed(text), number))
    else:
        write(counts)


# --- late records ------------------------------------------------------------------------------------------------

ONE_MINUTE = timedelta(seconds=60)
with_grace = TimeWindows(size=ONE_MINUTE, grace=timedelta(seconds=15))
"""Windows of a minute that still take records for 15 seconds after their end."""


def define_with_grace(builder: StreamsBuilder) -> None:
    """Draws the topology with windows of a minute."""
    write(count(by_letter(stream(builder)), with_grace), ONE_MINUTE)


# --- three kinds of time -----------------------------------------------------------------------------------------

TIMES: dict[str, Consumed] = {
    "event-time": Consumed(text, text),
    "ingestion-time": Consumed(text, text),
    "processing-time": Consumed(text, text, timestamp_extractor=WallclockTimestampExtractor()),
}
"""When a word was made, when Kafka got it, and when it is processed. Each is a topic, `words-event-time` and so on."""

INGESTION_TOPIC = TopicSpec("words-ingestion-time", 1, {"message.timestamp.type": "LogAppendTime"})
"""For Kafka to set the time, the topic has to say so: for the application there is no difference."""


def side_by_side(builder: StreamsBuilder) -> None:
    """Draws the topology with every kind of windows on every kind of time; each time has a topic of results."""
    for time, read in TIMES.items():
        letters = by_letter(builder.stream(f"words-{time}", read))
        for kind, windows in KINDS.items():
            counts = letters.windowed_by(windows).count(Materialized(f"{kind}-{time}", key=text, value=number))
            counts.to_stream(labelled(kind)).to(f"windows-{time}", Produced(text, number))


def labelled(kind: str) -> Callable[[Windowed[str], int], str]:
    """Makes a key that is easy to read: tumbling A 08:00:00-08:00:05."""
    return lambda windowed, _: f"{kind} {shown(windowed)}"


def shown(windowed: Windowed[str]) -> str:
    """A letter with its window."""
    return f"{windowed.key} {clock(windowed.window.start)}-{clock(windowed.window.end)}"


def clock(millis: int) -> str:
    """A timestamp as the time of day, with milliseconds where there are any."""
    time = datetime.fromtimestamp(millis // 1000, timezone.utc).strftime("%H:%M:%S")
    return f"{time}.{millis % 1000:03}" if millis % 1000 else time
