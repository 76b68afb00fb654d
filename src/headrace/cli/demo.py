"""`headrace demo`: an example with everything it needs, from Kafka to the results on the screen."""

from __future__ import annotations

import itertools
import logging
import socket
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from headrace.cli.companion import Companion
from headrace.cli.examples import Demo
from headrace.cli.feeding import feed
from headrace.cli.result_reader import ResultReader
from headrace.cli.result_table import ResultTable
from headrace.cli.run import RunOptions, run
from headrace.cli.terminal import Terminal
from headrace.cli.throwaway import throwaway_directory
from headrace.config import StreamsConfig
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import default_state_dir
from headrace.kafka.partitions import source_topics
from headrace.kafka.topics import Topics
from headrace.serving.config import LOCALHOST, ServingConfig
from headrace.topology import Topology

logger = logging.getLogger(__name__)

_LAG_SECONDS = 0.2
_PORT = 8080


@dataclass(frozen=True)
class DemoOptions:
    """How a demo is run."""

    rate: float = 20.0
    """Messages a second."""
    seed: int = 1
    messages: int | None = None
    """The demo ends when so many were sent and processed; None: never."""
    seconds: float | None = None
    """The demo ends so many seconds after its first result; None: never."""
    state_dir: Path | None = None
    """None: a temporary one."""
    port: int | None = None
    """Where the instance answers; None: at the usual one, or any other if that is taken."""


def run_demo(name: str, demo: Demo, options: DemoOptions) -> int:
    """Runs the demo until it ends or is told to; the answer is the exit code."""
    from headrace.cli.dashboard import dashboard

    with ExitStack() as stack:
        state_dir = options.state_dir
        if state_dir is None:
            state_dir = stack.enter_context(throwaway_directory(f"headrace-demo-{name}-"))
        config = replace(demo.config, state_dir=str(state_dir))
        # The log outlives a temporary directory.
        log_file = default_state_dir() / "logs" / f"demo-{name}.log"
        serving = ServingConfig(port=_usual_port() if options.port is None else options.port)
        routers = (dashboard(demo.title, demo.stores), *demo.routers)
        run_options = RunOptions(True, demo.partitions, "info", log_file, demo.topics, serving, routers)
        return run(demo.topology(), config, run_options, DemoCompanion(demo, options))


def _usual_port() -> int:
    """The usual port, or 0 for any other one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOCALHOST, _PORT))
        except OSError:
            return 0
    return _PORT


class DemoCompanion(Companion):
    """Sends the demo's messages and shows its results."""

    def __init__(self, demo: Demo, options: DemoOptions) -> None:
        self._demo = demo
        self._options = options
        self._results = {result.topic: result for result in demo.results}
        self._table = ResultTable(demo.title, demo.keys, demo.columns)
        self._dead_letters = 0
        self._first_result: float | None = None
        self._all_done = threading.Event()
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._feeder: threading.Thread | None = None
        self._reader: ResultReader | None = None

    @property
    def is_over(self) -> bool:
        seconds, first = self._options.seconds, self._first_result
        time_is_up = seconds is not None and first is not None and time.monotonic() >= first + seconds
        return time_is_up or self._all_done.is_set() or self._failure is not None

    def introduce(self, topology: Topology) -> str:
        return f"{self._demo.title}. Ctrl-C ends it."

    def start(self, config: StreamsConfig, terminal: Terminal) -> None:
        servers, letters = config.bootstrap_servers, config.dead_letter_queue_topic
        terminal.say(f"Topics: headrace topics --application-id {config.application_id} --bootstrap-servers {servers}")
        if letters is not None:
            terminal.say(f"Bad input: headrace dlq {letters} --bootstrap-servers {servers}")
        settings = ClientSettings.of(config)
        self._reader = ResultReader(settings, [*self._results, *([] if letters is None else [letters])], self._take)
        self._feeder = threading.Thread(target=self._feed, args=(config, settings), daemon=True)
        self._feeder.start()

    def on_answering(self, url: str, terminal: Terminal) -> None:
        terminal.say(f"Dashboard: {url}/dashboard")

    def screen(self) -> RenderableType:
        return Group(self._table.table(), Text(self._dead_letter_line()))

    def lines(self) -> list[str]:
        return self._table.lines()

    def summary(self) -> list[str]:
        return [*self._table.all_lines(), self._dead_letter_line()]

    def finish(self) -> None:
        self._stop_feeding()
        if self._reader is not None:
            self._reader.read_to_the_end()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        self._stop_feeding()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _feed(self, config: StreamsConfig, settings: ClientSettings) -> None:
        options = self._options
        try:
            messages = itertools.islice(self._demo.messages(Random(options.seed)), options.messages)
            feed(settings, messages, options.rate, self._stop)
            self._await_processed(config, settings)
        except Exception as error:
            logger.exception("The demo's messages could not be sent")
            self._failure = error

    def _await_processed(self, config: StreamsConfig, settings: ClientSettings) -> None:
        assert config.application_id is not None
        topics, sources = Topics(settings), source_topics(self._demo.topology())
        while not self._stop.wait(_LAG_SECONDS):
            if sum(each.lag for each in topics.lag(config.application_id, sources)) == 0:
                self._all_done.set()
                return

    def _take(self, message: Any) -> None:
        result = self._results.get(message.topic())
        if result is None:
            self._dead_letters += 1
            return
        try:
            key, value = result.key.deserialize(message.key()), result.value.deserialize(message.value())
            if value is not None:
                self._table.put(result.cells(key, value))
        except Exception as error:
            logger.exception("A result of %s cannot be shown", message.topic())
            self._failure = error
        self._first_result = self._first_result or time.monotonic()

    def _dead_letter_line(self) -> str:
        return f"{self._dead_letters:,} dead letter{'' if self._dead_letters == 1 else 's'}"

    def _stop_feeding(self) -> None:
        self._stop.set()
        if self._feeder is not None:
            self._feeder.join()
