"""What an example tells of itself, so that `headrace demo NAME` can run it.

An example is a package with a module `demo`, and in it an object `demo`:

    demo = Demo(
        title="How many orders each store has",
        topology=topology,
        config=StreamsConfig(application_id="orders"),
        messages=messages,
        keys=("store",),
        columns=("orders",),
        results=(Result("counts", text, number, lambda store, count: {"store": store, "orders": str(count)}),),
    )
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import headrace
from headrace.cli.feeding import Message
from headrace.cli.loading import make_importable
from headrace.config import StreamsConfig
from headrace.errors import ConfigError
from headrace.kafka.topics import TopicSpec
from headrace.serdes import Serde
from headrace.topology import Topology

if TYPE_CHECKING:
    from fastapi import APIRouter


@dataclass(frozen=True)
class Result:
    """How the records of a topic are shown: as cells of one row, by the names of their columns."""

    topic: str
    key: Serde[Any]
    value: Serde[Any]
    cells: Callable[[Any, Any], Mapping[str, str]]
    """(key, value) -> cells, those of the demo's `keys` among them."""


@dataclass(frozen=True)
class Demo:
    """An application with data to run on and results to look at."""

    title: str
    topology: Callable[[], Topology]
    config: StreamsConfig
    messages: Callable[[Random], Iterator[Message]]
    """Endless input; each message is made when it is to be sent."""
    keys: tuple[str, ...]
    """The columns that tell rows apart."""
    columns: tuple[str, ...]
    """The columns after them."""
    results: tuple[Result, ...]
    topics: tuple[TopicSpec, ...] = ()
    """Topics that need settings of their own; the others are made with `partitions`."""
    partitions: int = 4
    routers: tuple[APIRouter, ...] = ()
    """Endpoints of the application's own."""
    stores: tuple[str, ...] = ()
    """The stores that the dashboard begins with, four at most; the first ones by default."""


def demo_names() -> list[str]:
    """The examples that can be run."""
    directory, _ = _examples()
    return sorted(path.parent.name for path in directory.glob("*/demo.py"))


def load_demo(name: str) -> Demo:
    """The demo of an example."""
    names = demo_names()
    if name not in names:
        raise ConfigError(f"There is no demo {name}: choose one of {', '.join(names)}")
    directory, package = _examples()
    if package == directory.name:
        make_importable(str(directory.parent))
    demo = importlib.import_module(f"{package}.{name}.demo").demo
    assert isinstance(demo, Demo)
    return demo


def _examples() -> tuple[Path, str]:
    """Where the examples are, and the package they are of: a part of the library when it is installed."""
    library = Path(headrace.__file__).parent
    bundled = library / "examples"
    if bundled.is_dir():
        return bundled, "headrace.examples"
    return library.parents[1] / "examples", "examples"
