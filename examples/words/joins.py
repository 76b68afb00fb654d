"""Letters with what they stand for: every kind of join.

`alphabets-abbreviations` has "Apple" for A, `alphabets` has "A is the first letter in English Alphabets."
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from headrace import (
    GlobalKTable,
    Joined,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Produced,
    Repartitioned,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    Topology,
)

from .tables import consumed, text

ABBREVIATIONS, ALPHABETS, JOINED = "alphabets-abbreviations", "alphabets", "alphabets-joined"

five_seconds = JoinWindows.of(timedelta(seconds=5))
joined = Joined(text, text, text)
stream_joined = StreamJoined(text, text, text)


@dataclass(frozen=True)
class Alphabet:
    """A letter's abbreviation and its description; None where there is none."""

    abbreviation: str | None
    description: str | None


alphabet_json = Serdes.json(Alphabet)


# --- the two sides -----------------------------------------------------------------------------------------------


def abbreviations(builder: StreamsBuilder) -> KStream:
    """The abbreviations as a stream."""
    return builder.stream(ABBREVIATIONS, consumed)


def abbreviation_table(builder: StreamsBuilder) -> KTable:
    """The abbreviations as a table."""
    return builder.table(ABBREVIATIONS, consumed, Materialized("abbreviations-store", key=text, value=text))


def alphabets(builder: StreamsBuilder) -> KStream:
    """The descriptions as a stream."""
    return builder.stream(ALPHABETS, consumed)


def alphabet_table(builder: StreamsBuilder) -> KTable:
    """The descriptions as a table."""
    return builder.table(ALPHABETS, consumed, Materialized("alphabets-store", key=text, value=text))


def global_alphabets(builder: StreamsBuilder) -> GlobalKTable:
    """The descriptions, all of them on every instance."""
    return builder.global_table(ALPHABETS, consumed, Materialized("alphabets-global-store", key=text, value=text))


# --- a stream with a table ---------------------------------------------------------------------------------------


def stream_table(builder: StreamsBuilder) -> KStream:
    """Each abbreviation with the description that is known when it comes."""
    return abbreviations(builder).join(alphabet_table(builder), Alphabet, joined=joined)


def stream_table_left(builder: StreamsBuilder) -> KStream:
    """The same, also where no description is known."""
    return abbreviations(builder).left_join(alphabet_table(builder), Alphabet, joined=joined)


def stream_global(builder: StreamsBuilder) -> KStream:
    """Each abbreviation with the description of a key that is chosen: here its first letter."""
    return abbreviations(builder).join(global_alphabets(builder), Alphabet, key=lambda key, word: word[0])


def stream_global_left(builder: StreamsBuilder) -> KStream:
    """The same, also where no description is known."""
    return abbreviations(builder).left_join(global_alphabets(builder), Alphabet, key=lambda key, word: word[0])


# --- two tables --------------------------------------------------------------------------------------------------


def table_table(builder: StreamsBuilder) -> KStream:
    """The latest of both, whenever one of them changes."""
    return abbreviation_table(builder).join(alphabet_table(builder), Alphabet).to_stream()


def table_table_left(builder: StreamsBuilder) -> KStream:
    """The same, also where there is no description."""
    return abbreviation_table(builder).left_join(alphabet_table(builder), Alphabet).to_stream()


def table_table_outer(builder: StreamsBuilder) -> KStream:
    """The same, also where there is only one of both."""
    return abbreviation_table(builder).outer_join(alphabet_table(builder), Alphabet).to_stream()


def foreign_key(builder: StreamsBuilder) -> KStream:
    """The latest of both, where the abbreviation itself says which description is its own: by its first letter."""
    words, letters = abbreviation_table(builder), alphabet_table(builder)
    return words.join(letters, Alphabet, alphabet_store(), foreign_key=lambda word: word[0]).to_stream()


def foreign_key_left(builder: StreamsBuilder) -> KStream:
    """The same, also where there is no description."""
    words, letters = abbreviation_table(builder), alphabet_table(builder)
    return words.left_join(letters, Alphabet, alphabet_store(), foreign_key=lambda word: word[0]).to_stream()


def alphabet_store() -> Materialized:
    """What was joined, in a store."""
    return Materialized("alphabets-joined-store", key=text, value=alphabet_json)


# --- two streams -------------------------------------------------------------------------------------------------


def stream_stream(builder: StreamsBuilder) -> KStream:
    """Abbreviations and descriptions that come within five seconds of each other."""
    return abbreviations(builder).join(alphabets(builder), Alphabet, windows=five_seconds, joined=stream_joined)


def stream_stream_left(builder: StreamsBuilder) -> KStream:
    """The same, and abbreviations alone once the five seconds are over."""
    return abbreviations(builder).left_join(alphabets(builder), Alphabet, windows=five_seconds, joined=stream_joined)


def stream_stream_outer(builder: StreamsBuilder) -> KStream:
    """The same, and whatever came alone, of either, once the five seconds are over."""
    return abbreviations(builder).outer_join(alphabets(builder), Alphabet, windows=five_seconds, joined=stream_joined)


# --- where the topics differ in their partitions -----------------------------------------------------------------


def repartitioned(builder: StreamsBuilder) -> KStream:
    """Abbreviations in as many partitions as the descriptions have: what `stream_table` needs of the topics."""
    words = abbreviations(builder).repartition(Repartitioned(text, text, name="abbreviations"))
    return words.join(alphabet_table(builder), Alphabet, joined=joined)


JOINS: dict[str, Callable[[StreamsBuilder], KStream]] = {
    join.__name__: join
    for join in (
        stream_table,
        stream_table_left,
        stream_global,
        stream_global_left,
        table_table,
        table_table_left,
        table_table_outer,
        foreign_key,
        foreign_key_left,
        stream_stream,
        stream_stream_left,
        stream_stream_outer,
        repartitioned,
    )
}
"""Every kind by its name."""


def define(builder: StreamsBuilder, join: str) -> None:
    """Draws the topology of one kind; what was joined goes to its topic."""
    JOINS[join](builder).to(JOINED, Produced(text, alphabet_json))


def topology(join: str = "stream_table") -> Topology:
    """The topology of one kind."""
    builder = StreamsBuilder()
    define(builder, join)
    return builder.build()
