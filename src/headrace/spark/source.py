"""Where the application stands in its source topics, and what its next batch is to read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException

from headrace.errors import EnvironmentFailed, KafkaAway
from headrace.kafka.absence import is_away
from headrace.kafka.access import is_refused, on_topics
from headrace.kafka.clients import ClientSettings
from headrace.kafka.topics import Topics
from headrace.spark.commit_record import check_topics, created_again
from headrace.spark.layout import Layout
from headrace.spark.pace import Pace
from headrace.spark.ranges import Range
from headrace.spark.tail import MOST_RECORDS, Place, Tail

logger = logging.getLogger(__name__)

_SILENCE_SECONDS = 15.0
"""How long Kafka may be silent until it counts as away."""
_LOOK_SECONDS = 10.0
"""How often new partitions are looked for."""
_LOOK_FOR_TOPICS_SECONDS = 1.0
"""How often new topics of a pattern are looked for."""
_SETTLED_SECONDS = 0.5
"""How long nothing may have happened before a position that only moved past markers is committed."""
_SOON_SECONDS = 1.0
_STEP_SECONDS = 0.1
_REPLACED_SECONDS = 5.0
"""How long a broker may take to learn that another one has its place."""
_LOST = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)


class Source:
    """The source partitions of an application with the next offset to read of each."""

    def __init__(
        self,
        settings: ClientSettings,
        layout: Layout,
        group: str,
        positions: Mapping[Place, int],
        topic_ids: Mapping[str, str],
        pace: Pace,
        *,
        changelogs: Mapping[str, int],
        skips_lost: bool,
    ) -> None:
        """`positions` are those of the last commit, in the topics of these ids.

        What is not among them begins where its source says. `changelogs` are the partitions that changelogs have.
        """
        self._settings = settings
        self._layout = layout
        self._pace = pace
        self._skips_lost = skips_lost
        self._changelogs = dict(changelogs)
        self._topics = Topics(settings, _SILENCE_SECONDS)
        self._tail = Tail(settings, group)
        self.positions: dict[Place, int] = dict(positions)
        self.topic_ids: dict[str, str] = dict(topic_ids)
        self._known: set[Place] = set()
        """The partitions that there are now."""
        self._missing: set[str] = set()
        """The topics read by name that the last look did not find."""
        self._next_look = 0.0
        self._moved = time.monotonic()
        self._is_caught_up = False
        """Whether the last look found no more than a tail can hold."""

    def begin(self) -> None:
        """Finds the partitions and where to begin in them."""
        self._look()
        self._check_ends(self._ends())

    def plan(self) -> list[Range]:
        """What there is to read now, as much of it as a batch should have; empty if there is nothing."""
        if time.monotonic() >= self._next_look and self._look():
            self._tail.leave()
        if self._tail.is_following:
            self._follow(0.0)
            if self._tail.is_following:
                return self._taken()
        ranges = self._planned()
        return self._read_here(ranges) if self._is_caught_up else ranges

    def look_again(self) -> None:
        """Has the next plan ask Kafka for partitions and their ends instead of waiting for what arrives."""
        self._tail.leave()
        self._next_look = 0.0

    def wait(self, seconds: float) -> bool:
        """Waits until something arrives, at most so long; whether there is something to plan."""
        if not self._tail.is_following:
            return True
        self._follow(min(seconds, max(0.0, self._next_look - time.monotonic())))
        is_settled = time.monotonic() - self._moved > _SETTLED_SECONDS
        return (
            not self._tail.is_following
            or self._tail.has_records
            or (is_settled and self._tail.has_moved)
            or time.monotonic() >= self._next_look
        )

    def advance(self, ranges: list[Range]) -> None:
        """Moves the positions behind what was committed."""
        self.positions.update((each.place, each.end) for each in ranges)
        self._moved = time.monotonic()

    def existing(self, offsets: Mapping[Place, int]) -> dict[Place, int]:
        """The offsets of partitions that there are: Kafka takes no others for a group."""
        return {place: offset for place, offset in offsets.items() if place in self._known}

    def global_ends(self) -> dict[Place, int]:
        """How far the topics of global tables go now."""
        if not self._layout.global_topics:
            return {}
        counts = self._topics.describe(self._layout.global_topics)
        return self._topics.ends((topic, number) for topic, count in counts.items() for number in range(count))

    def ask_for_changes(self, ranges: list[Range]) -> Callable[[], None]:
        """Asks whether the topics of these ranges are still the ones that were planned; the result raises if not.

        A topic that is deleted and created again within a moment goes unnoticed by those who read it: they go on in the
        new one.
        """
        known = {each.topic: self.topic_ids[each.topic] for each in ranges if each.topic in self.topic_ids}
        answer = self._topics.ask_for_ids(known)

        def check() -> None:
            ids = answer()
            if created_again(known, ids) and self._skips_lost:
                raise KafkaAway("A source topic was created again: the batch is planned again.")
            check_topics(known, ids)

        return check

    def close(self) -> None:
        """Lets go of the connections."""
        self._tail.close()

    # --- partitions --------------------------------------------------------------------------------------------

    def _look(self) -> bool:
        """Finds new topics and partitions, and topics that were created again; whether there are any."""
        interval = _LOOK_FOR_TOPICS_SECONDS if self._layout.patterns else _LOOK_SECONDS
        self._next_look = time.monotonic() + interval
        counts = self._topics.describe()
        self._see_changelogs(counts)
        found = {(topic, number) for topic in self._layout.sources(counts) for number in range(counts[topic])}
        self._check_missing({topic for topic, _ in self._known} - counts.keys())
        again = self._forget_created_again({topic for topic, _ in found})
        if found == self._known and not again:
            return False
        self._begin_to_read(found - self.positions.keys(), again)
        self._known = found
        return True

    def _see_changelogs(self, counts: Mapping[str, int]) -> None:
        """Says where somebody has given a changelog more partitions; tasks write as they did."""
        for topic, known in self._changelogs.items():
            count = counts.get(topic, known)
            if count != known:
                self._changelogs[topic] = count
                logger.warning(
                    "Topic %s has %d partitions and had %d. The application goes on as before, but its next start is "
                    "refused: internal topics must not be changed.",
                    *(topic, count, known),
                )

    def _check_missing(self, missing: set[str]) -> None:
        """Raises where a topic that is read by its name was not there when last looked for, and still is not."""
        named = {topic for topic in missing if topic in self._layout.readers}
        gone = sorted(named & self._missing)
        if gone:
            self._topics.check_access(on_topics("Read", gone))
            raise EnvironmentFailed(
                f"Topic {', '.join(gone)}, which the application reads, was deleted, so it cannot go on. Nothing that "
                "was committed is lost. Give the application a topology that does not read the topic, or start over "
                "with: headrace reset"
            )
        self._missing = named

    def _forget_created_again(self, topics: set[str]) -> set[str]:
        """Forgets the positions in topics that were deleted and created again, which it returns.

        Raises EnvironmentFailed unless records may be lost. A topic that is gone keeps its id: it may come back.
        """
        ids = self._topics.ids(topics)
        again = created_again(self.topic_ids, ids)
        if again and not self._skips_lost:
            check_topics(self.topic_ids, ids)
        self.topic_ids = {**self.topic_ids, **ids}
        self.positions = {place: offset for place, offset in self.positions.items() if place[0] not in again}
        return again

    def _begin_to_read(self, places: set[Place], again: set[str]) -> None:
        """Finds where to begin in partitions that have not been read before.

        A partition that a known topic got later is read whole, and so is a topic that was created again: their records
        came after the application began.
        """
        known = {topic for topic, _ in self.positions} | again
        from_end = {place for place in places if place[0] not in known and self._layout.begins_at_end(place[0])}
        self.positions.update(self._topics.beginnings(places - from_end))
        self.positions.update(self._topics.ends(from_end))

    # --- what to read ------------------------------------------------------------------------------------------

    def _follow(self, seconds: float) -> None:
        """Takes what arrives; where that is too much, or some of it is lost, Kafka is asked for the ends instead."""
        try:
            self._tail.wait(seconds)
        except KafkaException as error:
            self._hear(error)
        else:
            if self._tail.has_more_than(self._pace.records):
                self._tail.leave()

    def _hear(self, error: KafkaException) -> None:
        """Raises what Kafka says; where records or topics are gone, the next plan looks for what is there."""
        if is_away(error):
            raise KafkaAway(f"Kafka at {self._settings.bootstrap_servers} does not answer: {error}") from error
        if is_refused(error):
            raise self._topics.refusal(on_topics("Read", {topic for topic, _ in self._known})) from error
        if error.args[0].code() not in (*_LOST, *_GONE):
            raise EnvironmentFailed(
                f"Kafka at {self._settings.bootstrap_servers} refused to send records: {error.args[0].str()}"
            ) from error
        self.look_again()

    def _read_here(self, ranges: list[Range]) -> list[Range]:
        """Begins to follow the partitions; gives the ranges with their records, if these arrive soon.

        A worker takes some milliseconds for each partition that it reads, however little there is in it.
        """
        try:
            self._tail.follow({place: self.positions[place] for place in self._known})
        except KafkaException as error:
            self._hear(error)
            return ranges
        wanted = {each.place: each.end for each in ranges}
        deadline = time.monotonic() + _SOON_SECONDS
        while not self._tail.has_reached(wanted):
            self._follow(_STEP_SECONDS)
            if not self._tail.is_following or time.monotonic() > deadline:
                self._tail.leave()
                return ranges
        return self._taken()

    def _taken(self) -> list[Range]:
        return self._tail.take() if self._tail.has_records or self._tail.has_moved else []

    def _planned(self) -> list[Range]:
        """Ranges from the positions to the ends, cut to what a batch should have."""
        ends = self._ends()
        self._check_ends(ends)
        ahead = {place: end - self.positions[place] for place, end in ends.items() if end > self.positions[place]}
        self._is_caught_up = sum(ahead.values()) <= min(MOST_RECORDS, self._pace.records)
        shares = self._shares(ahead)
        return [
            Range(
                *place,
                start := self.positions[place],
                end := start + max(1, int(count * shares[place[0]])),
                end < ends[place],
            )
            for place, count in sorted(ahead.items())
        ]

    def _shares(self, ahead: Mapping[Place, int]) -> dict[str, float]:
        """By topic, which share of what is ahead a batch should have.

        Topics that one task merges by time each get as many records as the longest of them: what the times of the
        others keep a task from processing is not read either.
        """
        by_topic: dict[str, int] = {}
        for (topic, _), count in ahead.items():
            by_topic[topic] = by_topic.get(topic, 0) + count
        longest: dict[int, int] = {}
        for topic, count in by_topic.items():
            group = self._layout.group_of(topic)
            longest[group] = max(count, longest.get(group, 0))
        allowed = min(1.0, self._pace.records / max(1, sum(by_topic.values())))
        return {
            topic: min(1.0, allowed * longest[self._layout.group_of(topic)] / count)
            for topic, count in by_topic.items()
        }

    def _ends(self) -> dict[Place, int]:
        return self._topics.ends(self._known)

    def _beyond(self, ends: Mapping[Place, int]) -> list[Place]:
        return [place for place, end in ends.items() if end < self.positions[place]]

    def _check_ends(self, ends: Mapping[Place, int]) -> None:
        """Sees that the positions are inside the partitions.

        Where they are not, Kafka is asked again for some time: a broker that stood still while another one took its
        place tells of an earlier end until it knows.
        """
        beyond = self._beyond(ends)
        deadline = time.monotonic() + _REPLACED_SECONDS
        while beyond and time.monotonic() < deadline:
            time.sleep(_STEP_SECONDS)
            ends = self._ends()
            beyond = self._beyond(ends)
        if not beyond:
            return
        if not self._skips_lost:
            check_topics(self.topic_ids, self._topics.ids({topic for topic, _ in beyond}))
            topic, number = beyond[0]
            raise EnvironmentFailed(
                f"Partition {number} of topic {topic} ends at offset {ends[beyond[0]]}, but the application has read "
                f"it up to {self.positions[beyond[0]]}: records were lost. To go on with what is "
                "there, set failOnDataLoss to false in the spark settings; to start over: headrace reset"
            )
        self.positions.update(self._topics.beginnings(beyond))
