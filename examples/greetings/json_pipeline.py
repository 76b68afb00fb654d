"""The same application on JSON, with a serde of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from headrace import Consumed, Produced, Serde, StreamsBuilder, Topology

from .pipeline import GREETINGS, SPANISH, UPPERCASE, text


@dataclass(frozen=True)
class Greeting:
    """What is said, and when."""

    message: str
    time_stamp: datetime


def to_json(greeting: Greeting) -> bytes:
    """{"message": "Good Morning", "timeStamp": "2022-12-04T05:26:31.060293"}"""
    content = {"message": greeting.message, "timeStamp": greeting.time_stamp.isoformat()}
    return json.dumps(content, ensure_ascii=False).encode()


def from_json(data: bytes) -> Greeting:
    """The greeting; ValueError or KeyError if the data is none."""
    content = json.loads(data)
    return Greeting(content["message"], datetime.fromisoformat(content["timeStamp"]))


greeting_json = Serde(to_json, from_json)
"""Two functions make a serde."""


def shout(greeting: Greeting) -> Greeting:
    """The greeting in upper case. "Transient Error" stands for a service that does not answer."""
    if greeting.message == "Transient Error":
        raise ConnectionError("Transient Error")
    return replace(greeting, message=greeting.message.upper())


def topology(change: Callable[[Greeting], Greeting] = shout) -> Topology:
    """The application on JSON."""
    builder = StreamsBuilder()
    define(builder, change)
    return builder.build()


def define(builder: StreamsBuilder, change: Callable[[Greeting], Greeting] = shout) -> None:
    """Draws the topology."""
    english = builder.stream(GREETINGS, Consumed(text, greeting_json))
    spanish = builder.stream(SPANISH, Consumed(text, greeting_json))
    long_ones = english.merge(spanish).filter(lambda key, greeting: len(greeting.message) > 5)
    long_ones.map_values(change).to(UPPERCASE, Produced(text, greeting_json))
