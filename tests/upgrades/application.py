"""An application with every kind of store, what it is fed with, and what the test driver makes of that.

What version 0.1 has left of it is kept: a change here would make another application of it. What comes later needs an
application of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from headrace import (
    BufferConfig,
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Processor,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    SessionWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    StreamsConfig,
    Suppressed,
    TimeWindows,
    Topology,
)
from headrace.record import Headers
from headrace.serdes.hashing import partition_for_key
from headrace.testing import TopologyTestDriver

S, L = Serdes.string(), Serdes.long()
PARTITIONS = {
    "clicks": 2,
    "left": 2,
    "right": 2,
    "prices": 2,
    "sales": 2,
    "places": 2,
    # One driver stands for one partition, and a foreign-key join goes from one to another.
    "placed": 1,
    "people": 1,
}
"""The source topics."""
GLOBAL = "places"
TOGETHER = (("clicks",), ("left", "right"), ("prices", "sales"), ("placed", "people"))
"""The source topics that one task reads. It has a time of its own, which punctuations go by."""
OUTPUTS = ("kept", "counts", "windows", "final", "calm", "sessions", "joined", "sold", "located", "invoices", "persons")
ONLY_LAST = ("invoices",)
"""Results of a foreign-key join: answers to what was overtaken meanwhile are dropped, and Spark answers later."""

_START = 1_750_000_000_000
_APART_MS = 500
_ROUND_RECORDS = 120
_ROUND_MS = 2 * _ROUND_RECORDS * _APART_MS
_SIZE = timedelta(seconds=10)


@dataclass(frozen=True)
class Written:
    """A record of a topic."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()
    offset: int = 0


# --- the topology ------------------------------------------------------------------------------------------------


class Keeper(Processor[str, str]):
    """Tells of the value before, and from time to time how many keys it has seen."""

    def init(self, ctx: Any) -> None:
        self.last = ctx.state_store("last")
        self.trail = ctx.state_store("trail")
        ctx.schedule(timedelta(seconds=20), PunctuationType.STREAM_TIME, self.report)

    def process(self, record: Any) -> None:
        before = self.last.get(record.key)
        self.last.put(record.key, record.value)
        self.trail.put(record.key, record.value, record.timestamp)
        self.ctx.forward(record.with_value(f"{before}>{record.value}"))

    def report(self, time: int) -> None:
        keys = [key for key, _ in self.last.all()]
        if keys:
            self.ctx.forward(Record(keys[0], f"{len(keys)} keys", time))


def topology(application_id: str) -> Topology:
    """The application under an id, which the names of its topics begin with."""

    def topic(name: str) -> str:
        return f"{application_id}.{name}"

    def to(stream: Any, name: str, key: Any = S, value: Any = S) -> None:
        stream.to(topic(name), Produced(key=key, value=value))

    builder, strings, grouped = StreamsBuilder(), Consumed(key=S, value=S), Grouped(key=S, value=S)
    windowed = Serdes.windowed(S, _SIZE)

    # Key-value and window stores of a processor, a schedule.
    builder.add_state_store(Stores.key_value("last", S, S))
    builder.add_state_store(Stores.window("trail", S, S, retention=timedelta(minutes=1), size=_SIZE))
    clicks = builder.stream(topic("clicks"), strings)
    to(clicks.process(Keeper, stores=("last", "trail")), "kept")

    # Timestamped stores of aggregations, buffers of suppress.
    by_user = clicks.group_by_key(grouped)
    counts = by_user.count(Materialized("counts", key=S, value=L))
    to(counts.to_stream(), "counts", value=L)
    calm = counts.suppress(Suppressed.until_time_limit(timedelta(seconds=8), BufferConfig.unbounded(), "calm"))
    to(calm.to_stream(), "calm", value=L)
    windows = by_user.windowed_by(TimeWindows(_SIZE, grace=timedelta(seconds=5)))
    per_window = windows.count(Materialized("windows", key=S, value=L))
    to(per_window.to_stream(), "windows", windowed, L)
    final = per_window.suppress(Suppressed.until_window_closes(BufferConfig.unbounded(), "final"))
    to(final.to_stream(), "final", windowed, L)
    gaps = SessionWindows(gap=timedelta(seconds=3), grace=timedelta(seconds=10))
    sessions = by_user.windowed_by(gaps).count(Materialized("sessions", key=S, value=L))
    to(sessions.to_stream(), "sessions", Serdes.session_windowed(S), L)

    # Buffers of an outer stream-stream join.
    left, right = builder.stream(topic("left"), strings), builder.stream(topic("right"), strings)
    within = JoinWindows.of(timedelta(seconds=4), grace=timedelta(seconds=2))
    both = StreamJoined(key=S, value=S, other=S, name="both", store_name="both")
    to(left.outer_join(right, _plus, within, both), "joined")

    # A versioned table and a stream that waits for it.
    history = Materialized.versioned("prices", timedelta(minutes=1), key=S, value=S)
    prices = builder.table(topic("prices"), strings, history)
    patient = Joined(key=S, value=S, other=S, grace=timedelta(seconds=3), name="patient")
    to(builder.stream(topic("sales"), strings).left_join(prices, _plus, joined=patient), "sold")

    # A global table.
    places = builder.global_table(topic(GLOBAL), strings, Materialized("places", key=S, value=S))
    to(clicks.left_join(places, _plus, key=lambda user, value: value), "located")

    # Two tables, joined by a foreign key, and a repartition.
    placed = builder.table(topic("placed"), strings, Materialized("placed", key=S, value=S))
    people = builder.table(topic("people"), strings, Materialized("people", key=S, value=S))
    invoices = placed.left_join(
        people, _plus, Materialized("invoices", key=S, value=S), foreign_key=lambda person: person, name="billed"
    )
    to(invoices.to_stream(), "invoices")
    persons = placed.group_by(lambda order, person: (person, order), grouped)
    to(persons.count(Materialized("persons", key=S, value=L)).to_stream(), "persons", value=L)
    return builder.build()


def _plus(one: str | None, other: str | None) -> str:
    return f"{one}+{other}"


# --- what it is fed with -----------------------------------------------------------------------------------------


def inputs(application_id: str, number: int) -> list[Written]:
    """The records of a round, in the order in which tasks take them: global tables first, then by time.

    From the second round on the clicks begin with two that are late: one whose window is still open, and one whose
    windows are all closed.
    """
    chance = random.Random(number)
    start = _START + number * _ROUND_MS
    records = [("places", f"v{place}", f"place {number}.{place}", start + place) for place in range(3)]
    if number:
        end_before = start - _ROUND_MS + _ROUND_RECORDS * _APART_MS
        records += [("clicks", f"k{user}", "v0", end_before - 1000) for user in range(4)]
        records += [("clicks", f"k{user}", "v1", _START) for user in range(4)]
    names = [name for name in PARTITIONS if name != GLOBAL]
    for step in range(1, _ROUND_RECORDS):
        name = chance.choices(names, [4, 2, 2, 1, 2, 2, 1])[0]
        key = f"{'p' if name == 'people' else 'k'}{chance.randrange(6)}"
        value: str | None = f"{'p' if name == 'placed' else 'v'}{chance.randrange(5)}"
        if name in ("prices", "placed", "people") and chance.random() < 0.2:
            value = None
        records.append((name, key, value, start + step * _APART_MS))
    return [_written(application_id, *record) for record in records]


def _written(application_id: str, name: str, key: str, value: str | None, timestamp: int) -> Written:
    packed = key.encode()
    headers = (("n", str(timestamp).encode()),) if timestamp // _APART_MS % 3 == 0 else ()
    partition = partition_for_key(packed, PARTITIONS[name])
    return Written(
        f"{application_id}.{name}", partition, packed, None if value is None else value.encode(), timestamp, headers
    )


# --- what comes of it --------------------------------------------------------------------------------------------


class Expected:
    """What the test driver makes of records, with one driver for each task that reads from outside."""

    def __init__(self, application_id: str) -> None:
        config = StreamsConfig(application_id=application_id, cache_max_bytes=0)
        self._by_place: dict[tuple[str, int], TopologyTestDriver] = {}
        for names in TOGETHER:
            for partition in range(PARTITIONS[names[0]]):
                driver = TopologyTestDriver(topology(application_id), config)
                self._by_place.update(((f"{application_id}.{name}", partition), driver) for name in names)
        self.drivers = list(dict.fromkeys(self._by_place.values()))
        self._everywhere = f"{application_id}.{GLOBAL}"

    def process(self, records: Iterable[Written]) -> None:
        """Processes records, in this order."""
        for record in records:
            everywhere = record.topic == self._everywhere
            for driver in self.drivers if everywhere else [self._by_place[record.topic, record.partition]]:
                source = driver.input_topic(record.topic, Serdes.bytes(), Serdes.bytes())
                source.pipe(record.key, record.value, timestamp=record.timestamp, headers=record.headers)

    def written(self, since: Iterable[int] | None = None) -> list[Written]:
        """What was written, the records of each key in their order; by driver, from so many records on."""
        starts = [0] * len(self.drivers) if since is None else since
        return [
            Written(topic, 0, record.key, record.value, record.timestamp, tuple(record.headers))
            for driver, start in zip(self.drivers, starts, strict=True)
            for topic, record in driver.produced()[start:]
        ]
