"""What `headrace demo greetings` runs and shows: the version on JSON, with every 20th greeting a bad one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import datetime
from random import Random

from headrace.cli.examples import Demo, Result
from headrace.cli.feeding import Message

from .errors import BROKEN, HALF_AN_EMOJI, TRANSIENT, tolerant
from .json_pipeline import Greeting, greeting_json, to_json, topology
from .pipeline import GREETINGS, SPANISH, UPPERCASE, text

SAYINGS = {
    GREETINGS: ("Hi", "Hello", "Good Morning", "Good Evening", "How are you?"),
    SPANISH: ("Hola", "¡Buenos días!", "¡Buenas noches!", "¿Cómo estás?"),
}
GUESTS = ("anna", "ben", "carmen", "diego", "emma")
BAD_EVERY = 20


def messages(random: Random) -> Iterator[Message]:
    """Greetings without end, in both languages."""
    bad_ones = itertools.cycle((BROKEN, TRANSIENT, HALF_AN_EMOJI))
    for number in itertools.count(1):
        topic = random.choice(list(SAYINGS))
        greeting = to_json(Greeting(random.choice(SAYINGS[topic]), datetime.now()))
        value = greeting if number % BAD_EVERY else next(bad_ones)
        yield Message(topic, random.choice(GUESTS).encode(), value)


demo = Demo(
    title="The latest greeting of each guest that is longer than five characters, in upper case",
    topology=topology,
    config=tolerant,
    messages=messages,
    keys=("guest",),
    columns=("greeting",),
    results=(Result(UPPERCASE, text, greeting_json, lambda guest, said: {"guest": guest, "greeting": said.message}),),
)
