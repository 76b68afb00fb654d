"""Timestamp extractors."""

from __future__ import annotations

from headrace import (
    Consumed,
    FailOnInvalidTimestamp,
    Grouped,
    LogAndSkipOnInvalidTimestamp,
    Produced,
    TimeWindows,
    UsePartitionTimeOnInvalidTimestamp,
)
from tests.oracle.scenario import Config, pipe, scenario, trace
from tests.oracle.scenarios.common import OUT, L, S, ms, to_windowed

EVENTS = [
    pipe("in", "a", "1", 10),
    pipe("in", "a", "2", 20),
    pipe("in", "a", "3", -1),
    pipe("in", "a", "4", 15),
    pipe("in", "a", "5", -7),
]


def _copied(b, extractor=None):
    b.stream("in", Consumed(S, S, timestamp_extractor=extractor)).to("out", OUT)


@scenario("timestamp extractor", "default fails", EVENTS)
def _(b):
    _copied(b)


@scenario("timestamp extractor", "FailOnInvalidTimestamp", EVENTS)
def _(b):
    _copied(b, FailOnInvalidTimestamp())


@scenario("timestamp extractor", "LogAndSkipOnInvalidTimestamp", EVENTS)
def _(b):
    _copied(b, LogAndSkipOnInvalidTimestamp())


@scenario("timestamp extractor", "UsePartitionTimeOnInvalidTimestamp", EVENTS)
def _(b):
    _copied(b, UsePartitionTimeOnInvalidTimestamp())


@scenario("timestamp extractor", "UsePartitionTimeOnInvalidTimestamp without a partition time", EVENTS[2:])
def _(b):
    _copied(b, UsePartitionTimeOnInvalidTimestamp())


@scenario(
    "timestamp extractor",
    "of the application",
    EVENTS,
    Config(default_timestamp_extractor=LogAndSkipOnInvalidTimestamp),
)
def _(b):
    _copied(b)


@scenario(
    "timestamp extractor",
    "the source's before the application's",
    EVENTS,
    Config(default_timestamp_extractor=LogAndSkipOnInvalidTimestamp),
)
def _(b):
    _copied(b, UsePartitionTimeOnInvalidTimestamp())


def _from_value(record, partition_time):
    trace(record.key, record.value, record.timestamp, record.topic, record.offset, partition_time)
    return int(record.value)


@scenario(
    "timestamp extractor",
    "a function",
    [pipe("in", "a", v, t) for v, t in (("100", 1), ("50", 2), ("-1", 3), ("200", -4), ("7", 5))],
)
def _(b):
    _copied(b, _from_value)


@scenario(
    "timestamp extractor",
    "a function decides on windows",
    [pipe("in", "a", v, t) for v, t in (("5", 1), ("15", 2), ("6", 3), ("35", 4), ("7", 5))],
)
def _(b):
    (
        b.stream("in", Consumed(S, S, timestamp_extractor=_from_value))
        .group_by_key()
        .windowed_by(TimeWindows(ms(10), grace=ms(5)))
        .count("n")
        .to_stream()
        .to("out", to_windowed(10))
    )


@scenario(
    "timestamp extractor", "on a table", [pipe("in", "a", v, t) for v, t in (("5", 1), ("3", 2), ("-1", 3), ("8", 4))]
)
def _(b):
    b.table("in", Consumed(S, S, timestamp_extractor=_from_value), "store").to_stream().to("out", OUT)


@scenario(
    "timestamp extractor",
    "a function that raises",
    [pipe("in", "a", "1", 1), pipe("in", "a", "x", 2), pipe("in", "a", "3", 3)],
)
def _(b):
    _copied(b, _from_value)


@scenario("timestamp extractor", "does not see repartition topics", [pipe("in", "a", "5", 1), pipe("in", "b", "3", 2)])
def _(b):
    s = b.stream("in", Consumed(S, S, timestamp_extractor=_from_value))
    s.group_by(lambda k, v: "k", Grouped(S, S)).count("n").to_stream().to("out", Produced(S, L))
