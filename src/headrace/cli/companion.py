"""Companion: what runs beside an application and is shown with it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType

from headrace.cli.terminal import Terminal
from headrace.config import StreamsConfig
from headrace.topology import Topology


class Companion:
    """Nobody: an application on its own."""

    @property
    def is_over(self) -> bool:
        """Whether the application is to end."""
        return False

    def introduce(self, topology: Topology) -> str:
        """What is said at the beginning."""
        return str(topology.describe()).rstrip()

    def start(self, config: StreamsConfig, terminal: Terminal) -> None:
        """Called when Kafka answers and the topics are there, before Spark is started."""

    def on_answering(self, url: str, terminal: Terminal) -> None:
        """Called when the application can be asked at the URL, if it can be."""

    def screen(self) -> RenderableType | None:
        """What is shown above the application's line."""
        return None

    def lines(self) -> Sequence[str]:
        """What is new since the last call, where nobody watches."""
        return ()

    def summary(self) -> Sequence[str]:
        """What is said at the end, where nobody watches."""
        return ()

    def finish(self) -> None:
        """Called when the application has ended, while Kafka still answers; raises what went wrong."""

    def close(self) -> None:
        """Called last, whatever happened."""
