"""The nodes of a topology: sources, processors and sinks, frozen once the topology is built."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.topology.operations import Operation
from headrace.topology.serde_refs import SerdeRef


@dataclass(frozen=True)
class Location:
    """The user's own line that made a node."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class SourceNode:
    """Reads topics, by name or by pattern."""

    name: str
    topics: tuple[str, ...]
    pattern: re.Pattern[str] | None = None
    key: SerdeRef = None
    value: SerdeRef = None
    timestamp_extractor: Callable[[Any, int], int] | None = None
    offset_reset: str | None = None
    location: Location | None = field(default=None, compare=False)

    @property
    def parents(self) -> tuple[str, ...]:
        """Sources have none."""
        return ()


@dataclass(frozen=True)
class ProcessorNode:
    """Runs an operation, with the stores it is connected to."""

    name: str
    parents: tuple[str, ...]
    operation: Operation
    stores: tuple[str, ...] = ()
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SinkNode:
    """Writes to a topic, or to the one a function `(k, v, context)` chooses."""

    name: str
    parents: tuple[str, ...]
    topic: str | Callable[[Any, Any, Any], str]
    key: SerdeRef = None
    value: SerdeRef = None
    partitioner: Callable[[str, Any, Any, int], int | None] | None = None
    location: Location | None = field(default=None, compare=False)


Node = SourceNode | ProcessorNode | SinkNode
