"""Words as a stream, and in tables: one that each task has a part of, and one that every instance has the whole of."""

from __future__ import annotations

from headrace import Consumed, GlobalKTable, KStream, KTable, Materialized, Serdes, StreamsBuilder

WORDS = "words"
"""Words by their first letter: A has Apple, Alpha, Ant."""

text = Serdes.string()
consumed = Consumed(text, text)


def stream(builder: StreamsBuilder) -> KStream:
    """The words as they come."""
    return builder.stream(WORDS, consumed)


def table(builder: StreamsBuilder) -> KTable:
    """The latest word of each letter, in the store `words-store`."""
    return builder.table(WORDS, consumed, Materialized("words-store", key=text, value=text))


def global_table(builder: StreamsBuilder) -> GlobalKTable:
    """The same, the whole of it on every instance, in the store `words-global-store`."""
    return builder.global_table(WORDS, consumed, Materialized("words-global-store", key=text, value=text))
