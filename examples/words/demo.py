"""What `headrace demo words` runs and shows."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from headrace.cli.examples import Demo, Result
from headrace.cli.feeding import Message

from .aggregations import AGGREGATED, COUNTED, REDUCED, AlphabetWordAggregate, aggregate_json, number
from .joins import ABBREVIATIONS, ALPHABETS, JOINED, Alphabet, alphabet_json
from .pipeline import config, topology
from .tables import WORDS, text
from .windows import WINDOWED

DICTIONARY = {
    "A": ("first", ("Apple", "Alpha", "Ant")),
    "B": ("second", ("Bus", "Baby", "Banana")),
    "C": ("third", ("Cat", "Cloud", "Cherry")),
    "D": ("fourth", ("Dog", "Delta", "Door")),
    "E": ("fifth", ("Echo", "Egg", "Elephant")),
}


def messages(random: Random) -> Iterator[Message]:
    """What each letter is, then words without end, each of them an abbreviation too."""
    for letter, (place, _) in DICTIONARY.items():
        yield Message(ALPHABETS, letter.encode(), f"{letter} is the {place} letter in English Alphabets.".encode())
    while True:
        letter = random.choice(list(DICTIONARY))
        word = random.choice(DICTIONARY[letter][1])
        for topic in (WORDS, ABBREVIATIONS):
            yield Message(topic, letter.encode(), word.encode())


def count(letter: str, words: int) -> dict[str, str]:
    """How many words there were."""
    return {"letter": letter, "words": f"{words:,}"}


def last_words(letter: str, words: AlphabetWordAggregate) -> dict[str, str]:
    """The last three of the words."""
    return {"letter": letter, "the last ones": ", ".join(words.valueList[-3:])}


def joined(letter: str, alphabet: Alphabet) -> dict[str, str]:
    """The last word with the letter's description."""
    return {"letter": letter, "joined": f"{alphabet.abbreviation}: {alphabet.description}"}


demo = Demo(
    title="Words by letter",
    topology=topology,
    config=config,
    messages=messages,
    keys=("letter",),
    columns=("words", "the last ones", "joined"),
    results=(
        Result(COUNTED, text, number, count),
        Result(AGGREGATED, text, aggregate_json, last_words),
        Result(JOINED, text, alphabet_json, joined),
    ),
    partitions=2,
    stores=(COUNTED, WINDOWED, REDUCED, AGGREGATED),
)
