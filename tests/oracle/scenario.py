"""Scenarios: a topology function that runs on both sides, and what is piped into it."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.record import Headers
from headrace.serdes import Serde

TopologyFunction = Callable[[Any], Any]
"""Takes a StreamsBuilder `b` or a Topology `t`, Headrace's or the oracle's."""


@dataclass(frozen=True)
class Pipe:
    """A record that arrives on a topic."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()
    text: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Advance:
    """The wall clock moves on."""

    millis: int

    def __str__(self) -> str:
        return f"advance({self.millis})"


Event = Pipe | Advance


def pipe(topic: str, key: Any, value: Any, timestamp: int, headers: Headers = ()) -> Pipe:
    """A record; text, int (8 bytes), float (8 bytes), bool, None and bytes are written as Kafka would, else as JSON."""
    text = f"pipe({topic!r}, {key!r}, {value!r}, {timestamp}{f', {headers!r}' if headers else ''})"
    return Pipe(topic, encode(key), encode(value), timestamp, headers, text)


def advance(millis: int) -> Advance:
    """The wall clock moves on by so many milliseconds."""
    return Advance(millis)


def encode(value: Any) -> bytes | None:
    """The bytes of a key or value."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool):
        return b"\x01" if value else b"\x00"
    if isinstance(value, int):
        return struct.pack(">q", value)
    if isinstance(value, float):
        return struct.pack(">d", value)
    return json.dumps(value, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Config:
    """The settings of a scenario; each side makes its own configuration of them."""

    cache_max_bytes: int | None = None
    """None: Kafka Streams' default, 10 MiB."""
    default_key_serde: Serde[Any] | None = None
    default_value_serde: Serde[Any] | None = None
    default_timestamp_extractor: Any = None
    deserialization: Literal["fail", "continue"] | None = None
    processing: Literal["fail", "continue"] | None = None
    dead_letter_topic: str | None = None


@dataclass(frozen=True)
class Scenario:
    """One case of one operator."""

    operator: str
    case: str
    topology: TopologyFunction
    inputs: Sequence[Event] = ()
    config: Config = field(default_factory=Config)
    stores: Sequence[str] | None = None
    """The stores to compare; None: all that the topology gives a name."""

    @property
    def is_low_level(self) -> bool:
        """Whether the function builds with `Topology.add_*`."""
        return "t" in inspect.signature(self.topology).parameters

    def __str__(self) -> str:
        return f"{self.operator}: {self.case}"


_scenarios: list[Scenario] = []
_traced: list[Any] = []


def scenario(
    operator: str,
    case: str,
    inputs: Sequence[Event] = (),
    config: Config | None = None,
    stores: Sequence[str] | None = None,
) -> Callable[[TopologyFunction], TopologyFunction]:
    """Registers a topology function as a scenario."""

    def register(topology: TopologyFunction) -> TopologyFunction:
        _scenarios.append(Scenario(operator, case, topology, tuple(inputs), config or Config(), stores))
        return topology

    return register


def all_scenarios() -> list[Scenario]:
    """Every scenario of the package `scenarios`, in the order of the files."""
    package = importlib.import_module("tests.oracle.scenarios")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
        importlib.import_module(f"{package.__name__}.{module.name}")
    names = [str(one) for one in _scenarios]
    assert len(set(names)) == len(names), [name for name in names if names.count(name) > 1]
    return list(_scenarios)


def trace(*what: Any) -> None:
    """Called by a topology's functions: what they saw is compared too."""
    _traced.append(what)


def start_trace() -> None:
    """Forgets what was traced."""
    _traced.clear()


def traced() -> list[Any]:
    """What was traced since the start."""
    return list(_traced)
