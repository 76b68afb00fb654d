"""Builds the topologies that the functions of the words application draw."""

from __future__ import annotations

from collections.abc import Callable

from headrace import StreamsBuilder, Topology

SECOND = 1000
EIGHT = 8 * 60 * 60 * SECOND
"""08:00:00 in milliseconds."""


def build(draw: Callable[[StreamsBuilder], object]) -> Topology:
    """The topology that a function draws."""
    builder = StreamsBuilder()
    draw(builder)
    return builder.build()
