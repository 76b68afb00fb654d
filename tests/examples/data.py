"""The data of the demos."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random

from headrace.cli.feeding import Message


def first(messages: Callable[[Random], Iterator[Message]], count: int, seed: int = 1) -> list[Message]:
    """The first messages of a demo."""
    return list(islice(messages(Random(seed)), count))
