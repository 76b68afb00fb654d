"""Reads the entries of a task's stores back from their changelog partitions, in the worker that needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from headrace.errors import RecordsLost
from headrace.kafka.topics import Topics
from headrace.spark.ranges import Range
from headrace.spark.reader import KafkaReader
from headrace.spark.working_copy import Readers
from headrace.state.changes import Changes
from headrace.state.rebuild import ChangelogRecord, rebuilt_changes
from headrace.topology.stores import StoreSpec

_RECORDS_AT_ONCE = 250_000
"""How many records are put into LMDB at once, in the order of their keys."""


class Changelogs:
    """The changelog partitions of one task."""

    def __init__(
        self,
        specs: Sequence[StoreSpec],
        topics: Mapping[str, str],
        partition: int,
        reader: KafkaReader,
        admin: Topics,
        least_ends: Mapping[tuple[str, int], int],
    ) -> None:
        """`topics` are the changelogs by store; a store without one lives in the working copy alone."""
        self._logged = [spec for spec in specs if spec.name in topics]
        self._topics = topics
        self._partition = partition
        self._reader = reader
        self._admin = admin
        self._least_ends = least_ends
        self.records = 0
        """How many records were read so far."""

    def read(self, stores: Readers, starts: Mapping[str, int] | None = None) -> Iterator[Changes]:
        """What the changelogs have from these offsets on, or in all, as changes of the stores, some at a time.

        They are read to their very end: a commit may be a moment ahead of the markers that show it to readers. There
        are no open transactions, as the driver has ended them before it began. What stores remember beside their
        entries comes with the commit record, whatever can be told from the changelogs.
        """
        places = [(self._topics[spec.name], self._partition) for spec in self._logged]
        ends = self._admin.ends_behind({place: self._least_ends.get(place, 0) for place in places})
        for spec, place in zip(self._logged, places, strict=True):
            start = None if starts is None else starts.get(place[0], 0)
            records = self._records(place, start, ends[place])
            while piece := list(islice(records, _RECORDS_AT_ONCE)):
                self.records += len(piece)
                yield {spec.name: rebuilt_changes(spec, stores(spec.name), piece)}

    def _records(self, place: tuple[str, int], start: int | None, end: int) -> Iterator[ChangelogRecord]:
        """The records of a changelog; where Kafka deletes what is too old meanwhile, from its new beginning."""
        while True:
            start = self._admin.beginnings([place])[place] if start is None else start
            try:
                for rows in self._reader.read(Range(*place, start, end)):
                    for _, timestamp, key, value, headers in rows:
                        assert key is not None
                        yield key, value, timestamp, headers
                return
            except RecordsLost:
                start = None
