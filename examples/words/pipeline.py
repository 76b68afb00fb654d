"""The application that `headrace run examples.words:topology` starts: a table, aggregations, windows and a join."""

from __future__ import annotations

from headrace import Materialized, Produced, StreamsBuilder, StreamsConfig, Topology

from . import aggregations, tables, windows
from .joins import JOINED, alphabet_json, stream_table
from .tables import text

config = StreamsConfig(application_id="words")


def topology() -> Topology:
    """The application."""
    builder = StreamsBuilder()
    define(builder)
    return builder.build()


def define(builder: StreamsBuilder) -> None:
    """Draws the topology. A topic is read once: the table is made of the stream that the rest uses too."""
    words = tables.stream(builder)
    words.to_table(Materialized("words-store", key=text, value=text))

    letters = aggregations.by_letter(words)
    aggregations.count(letters)
    aggregations.reduce(letters)
    aggregations.aggregate(letters)
    windows.write(windows.count(letters))

    stream_table(builder).to(JOINED, Produced(text, alphabet_json))
