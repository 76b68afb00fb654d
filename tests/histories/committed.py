"""What was committed, and when it was known to be: the changelogs by offset, and their ends as an observer saw them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.histories.history import Place, Span, Value

Partition = tuple[str, int]
"""A store and the number of a partition."""


class Record(NamedTuple):
    """A committed record of a changelog; no value deletes the entry."""

    offset: int
    place: Place
    value: Value | None


class Log:
    """The committed records of one partition. A position is the offset of the first record that is not included."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = sorted(records)
        self._offsets = [record.offset for record in self.records]
        self._of_place: dict[Place, list[Record]] = {}
        for record in self.records:
            self._of_place.setdefault(record.place, []).append(record)
        self._values = {(record.place, record.value) for record in self.records}
        self._places_of_key: dict[str, list[Place]] = {}
        for place in sorted(self._of_place):
            self._places_of_key.setdefault(place.key, []).append(place)
        self._keys = sorted(self._places_of_key)

    def state(self, span: Span, position: int) -> dict[Place, Value]:
        """The entries of the span at a position."""
        found: dict[Place, Value] = {}
        for key in self._keys[bisect_left(self._keys, span.low) : bisect_right(self._keys, span.high)]:
            for place in self._places_of_key[key]:
                value = self.value(place, position) if place in span else None
                if value is not None:
                    found[place] = value
        return found

    def value(self, place: Place, position: int) -> Value | None:
        """The value of an entry at a position."""
        records = self._of_place.get(place, [])
        number = bisect_left(records, position, key=lambda record: record.offset)
        return records[number - 1].value if number else None

    def changes(self, span: Span, low: int, high: int) -> list[Record]:
        """The records of the span between two positions."""
        found = self.records[bisect_left(self._offsets, low) : bisect_left(self._offsets, high)]
        return [record for record in found if record.place in span]

    def states(self, span: Span, low: int, high: int) -> Iterator[dict[Place, Value]]:
        """The entries of the span at every position from one to another; the same dict, changed on the way."""
        state = self.state(span, low)
        yield state
        for record in self.changes(span, low, high):
            if record.value is None:
                state.pop(record.place, None)
            else:
                state[record.place] = record.value
            yield state

    def has_had(self, place: Place, value: Value) -> bool:
        """Whether an entry has had the value at any position."""
        return (place, value) in self._values

    @property
    def end(self) -> int:
        """The position of all records together."""
        return self._offsets[-1] + 1 if self._offsets else 0


class Sample(NamedTuple):
    """Where partitions ended for a read_committed reader who asked at one moment and was told by another."""

    asked: float
    answered: float
    ends: Mapping[Partition, int]


class Ends:
    """Bounds of what was committed at a moment. Samples were taken one after the other."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples
        self._asked = [sample.asked for sample in samples]
        self._answered = [sample.answered for sample in samples]

    def at_least(self, partition: Partition, moment: float) -> int:
        """A position that was committed by then for certain."""
        number = bisect_right(self._answered, moment)
        return self._samples[number - 1].ends[partition] if number else 0

    def at_most(self, partition: Partition, moment: float) -> int:
        """A position beyond which nothing was committed by then. The last sample has to be later than all reads."""
        number = bisect_left(self._asked, moment)
        assert number < len(self._samples), "nobody has looked at the ends after the last read"
        return self._samples[number].ends[partition]
