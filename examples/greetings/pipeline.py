"""Greetings of two topics, merged; those longer than five characters go on in upper case.

Each function draws one small topology on text. `json_pipeline` has the same with JSON.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace import Consumed, KStream, Produced, Serdes, StreamsBuilder, StreamsConfig, Topology

GREETINGS, SPANISH, UPPERCASE = "greetings", "greetings-spanish", "greetings-uppercase"

text = Serdes.string()
config = StreamsConfig(application_id="greetings")


def topology() -> Topology:
    """The application."""
    return build(uppercase)


def build(draw: Callable[[StreamsBuilder], None]) -> Topology:
    """The topology that a function draws."""
    builder = StreamsBuilder()
    draw(builder)
    return builder.build()


def greetings(builder: StreamsBuilder) -> KStream:
    """The greetings of both topics as one stream."""
    english = builder.stream(GREETINGS, Consumed(text, text))
    spanish = builder.stream(SPANISH, Consumed(text, text))
    return english.merge(spanish)


def write(stream: KStream) -> None:
    """Sends what came out to its topic."""
    stream.to(UPPERCASE, Produced(text, text))


def uppercase(builder: StreamsBuilder) -> None:
    """Greetings longer than five characters, in upper case: `filter` and `map_values`."""
    write(greetings(builder).filter(lambda key, greeting: len(greeting) > 5).map_values(str.upper))


def without_short_ones(builder: StreamsBuilder) -> None:
    """The same, said the other way round: `filter_not`."""
    write(greetings(builder).filter_not(lambda key, greeting: len(greeting) <= 5).map_values(str.upper))


def uppercase_keys(builder: StreamsBuilder) -> None:
    """Key and value in upper case: `map`."""
    write(greetings(builder).map(lambda key, greeting: (key.upper(), greeting.upper())))


def letters(builder: StreamsBuilder) -> None:
    """A greeting becomes its letters, each with the key in upper case: `flat_map`."""
    write(greetings(builder).flat_map(lambda key, greeting: [(key.upper(), letter) for letter in greeting]))


def letters_of_values(builder: StreamsBuilder) -> None:
    """A greeting becomes its letters, and the key stays as it is: `flat_map_values`."""
    write(greetings(builder).flat_map_values(list))


def watched(builder: StreamsBuilder, look: Callable[[str, str], object] = print) -> None:
    """Nothing is changed: `peek` lets a function look at each record, `print` shows it on the screen."""
    stream = greetings(builder).peek(look)
    stream.print(label="greetings")
    write(stream)


VARIANTS: dict[str, Callable[[StreamsBuilder], None]] = {
    draw.__name__: draw for draw in (uppercase, without_short_ones, uppercase_keys, letters, letters_of_values, watched)
}
"""Every topology by its name."""
