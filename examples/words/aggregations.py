"""Words by letter: counted, reduced to one text, and aggregated. Records without a key are left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace import (
    Grouped,
    KGroupedStream,
    KStream,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    Topology,
)

from .tables import stream, text

COUNTED, REDUCED, AGGREGATED = "counted-words", "reduced-words", "aggregated-words"
"""Stores, and topics with what changes in them."""

number = Serdes.long()
grouped = Grouped(text, text)


@dataclass(frozen=True)
class AlphabetWordAggregate:
    """The words of a letter."""

    key: str = ""
    valueList: list[str] = field(default_factory=list)
    runningCount: int = 0

    def add(self, key: str, word: str) -> AlphabetWordAggregate:
        """The same with one more word."""
        return AlphabetWordAggregate(key, [*self.valueList, word], self.runningCount + 1)


aggregate_json = Serdes.json(AlphabetWordAggregate)


# --- what is made of the words of a key --------------------------------------------------------------------------


def count(words: KGroupedStream) -> None:
    """How many words each key has."""
    counts = words.count(Materialized(COUNTED, key=text, value=number))
    counts.to_stream().to(COUNTED, Produced(text, number))


def reduce(words: KGroupedStream) -> None:
    """The words of each key in one text: Apple-Alpha-Ant."""
    reduced = words.reduce(lambda so_far, word: f"{so_far}-{word}", Materialized(REDUCED, key=text, value=text))
    reduced.to_stream().to(REDUCED, Produced(text, text))


def aggregate(words: KGroupedStream) -> None:
    """The words of each key as a list, with their count."""
    aggregated = words.aggregate(
        AlphabetWordAggregate,
        lambda key, word, so_far: so_far.add(key, word),
        Materialized(AGGREGATED, key=text, value=aggregate_json),
    )
    aggregated.to_stream().to(AGGREGATED, Produced(text, aggregate_json))


# --- which key ---------------------------------------------------------------------------------------------------


def by_letter(words: KStream) -> KGroupedStream:
    """The words by the key they have, the letter."""
    return words.group_by_key(grouped)


def by_word(words: KStream) -> KGroupedStream:
    """The words by themselves: a new key needs a repartition topic."""
    return words.group_by(lambda letter, word: word, grouped)


def by_word_with_map(words: KStream) -> KGroupedStream:
    """The same with `map`, after which the key counts as new."""
    return words.map(lambda letter, word: (word, word)).group_by_key(grouped)


def by_word_with_select_key(words: KStream) -> KGroupedStream:
    """The same with `select_key`."""
    return words.select_key(lambda letter, word: word).group_by_key(grouped)


GROUPINGS: dict[str, Callable[[KStream], KGroupedStream]] = {
    group.__name__: group for group in (by_letter, by_word, by_word_with_map, by_word_with_select_key)
}
AGGREGATIONS: dict[str, Callable[[KGroupedStream], None]] = {
    combine.__name__: combine for combine in (count, reduce, aggregate)
}


def define(builder: StreamsBuilder, group: str, combine: str) -> None:
    """Draws the topology with one of the groupings and one of the aggregations."""
    AGGREGATIONS[combine](GROUPINGS[group](stream(builder)))


def rekeyed() -> Topology:
    """Counts by word, with the repartition topic."""
    builder = StreamsBuilder()
    define(builder, "by_word_with_select_key", "count")
    return builder.build()
