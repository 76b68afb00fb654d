"""`headrace run`: an application in the foreground, until it fails or is told to stop."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING

from rich.live import Live
from rich.text import Text

from headrace.cli.applications import running, sinks_of, sources_of
from headrace.cli.cluster import download, reachable, state_directory
from headrace.cli.failures import explain
from headrace.cli.progress_line import ProgressLine
from headrace.cli.terminal import Terminal, chatter_in
from headrace.config import StreamsConfig
from headrace.errors import HeadraceError
from headrace.kafka.clients import ClientSettings
from headrace.kafka.jars import SPARK_KAFKA
from headrace.kafka.partitions import source_topics
from headrace.kafka.topics import Topics, TopicSpec
from headrace.streams import Streams
from headrace.topology import Topology

if TYPE_CHECKING:
    from headrace.spark.query import BatchProgress

logger = logging.getLogger(__name__)

_CLOSE_SECONDS = 9.0
_ANSWER_SECONDS = 10.0
_LAG_SECONDS = 2.0
_REDRAW_SECONDS = 0.25
_LINE_SECONDS = 1.0


@dataclass(frozen=True)
class RunOptions:
    """What `run` was told beside the configuration."""

    create_topics: bool
    partitions: int
    log_level: str
    log_file: Path | None


class Stopped(BaseException):
    """A signal came while the application was starting."""


class _Stop:
    """Somebody wants the application to end."""


class _Ended:
    """The application has ended by itself."""


def run(topology: Topology, config: StreamsConfig, options: RunOptions) -> int:
    """Runs the application; the answer is the exit code."""
    assert config.application_id is not None
    state_dir = state_directory(config)
    log_file = options.log_file or state_dir / "logs" / f"{config.application_id}.log"
    with chatter_in(log_file, options.log_level) as terminal:
        try:
            terminal.say(str(topology.describe()).rstrip())
            terminal.say(f"Application {config.application_id}, state in {state_dir}, log in {log_file}")
            with running(state_dir, config.application_id):
                return _Run(topology, config, options, terminal).run()
        except Stopped:
            terminal.say("Stopped before it had started.")
            return 0
        except Exception as error:
            if _came_of_stopping(error):
                logger.info("Stopped while it was starting", exc_info=True)
                terminal.say("Stopped before it had started.")
                return 0
            logger.exception("The application failed")
            _complain(terminal, error, log_file, options.log_level)
            return 1


def _came_of_stopping(error: BaseException) -> bool:
    """Whether the error was met while cleaning up after a signal: Spark does not take an interrupted start well."""
    seen = error.__context__
    while seen is not None and not isinstance(seen, Stopped):
        seen = seen.__context__
    return seen is not None


def _complain(terminal: Terminal, error: Exception, log_file: Path, log_level: str) -> None:
    terminal.complain(explain(error))
    if log_level == "debug":
        terminal.errors.print_exception()
    elif not isinstance(error, HeadraceError):
        terminal.complain(f"The whole story is in {log_file}")


class _Run:
    """One run of an application: start, watch, stop."""

    def __init__(self, topology: Topology, config: StreamsConfig, options: RunOptions, terminal: Terminal) -> None:
        self._topology = topology
        self._config = config
        self._options = options
        self._terminal = terminal
        self._line = ProgressLine()
        # A signal handler may put something in while the main thread is at it: this queue allows that.
        self._events: SimpleQueue[BatchProgress | _Stop | _Ended] = SimpleQueue()
        self._starting = True
        self._stops = 0
        self._over = threading.Event()
        self._failed = False
        # Spark and the embedded Kafka end in their own time: there is a limit for all of it together.
        self._watchdog = threading.Timer(_CLOSE_SECONDS, self._leave)
        self._watchdog.daemon = True

    def run(self) -> int:
        with ExitStack() as stack:
            stack.enter_context(self._signals())
            stack.callback(self._watchdog.cancel)
            config = stack.enter_context(reachable(self._config, self._terminal))
            app = self._start(config)
            for task in (self._await_end, self._follow_lag):
                threading.Thread(target=task, args=(app, config), daemon=True).start()
            try:
                self._show(app)
            finally:
                self._limit_the_end()
                self._over.set()
                self._close(app)
            app.wait(0)  # raises what made it fail
        self._terminal.say(f"Stopped: {self._line.totals()}")
        return 0

    def _start(self, config: StreamsConfig) -> Streams:
        app = Streams(self._topology, config)
        app.on_progress(self._events.put)
        self._prepare_topics(config)
        download(SPARK_KAFKA, "Downloading Spark's Kafka connector", self._terminal)
        with self._terminal.busy("Starting Spark"):
            app.start()
        self._starting = False
        self._install_handlers()  # Spark has put its own in the place of ours
        return app

    def _prepare_topics(self, config: StreamsConfig) -> None:
        """Sees that Kafka answers and the topics are there before Spark is started, which takes its time."""
        topics = Topics(ClientSettings.of(config), _ANSWER_SECONDS)
        with self._terminal.busy(f"Looking at the topics at {config.bootstrap_servers}"):
            known = topics.describe()
            if self._options.create_topics:
                wanted = [*source_topics(self._topology), *sinks_of(self._topology)]
                if config.dead_letter_queue_topic is not None:
                    wanted.append(config.dead_letter_queue_topic)
                missing = [name for name in dict.fromkeys(wanted) if name not in known]
                created = topics.create([TopicSpec(name, self._options.partitions) for name in missing], exist_ok=True)
            else:
                topics.require(source_topics(self._topology))
                created = []
            assert config.application_id is not None
            # A Kafka that has just started answers this once groups can commit.
            topics.lag(config.application_id, source_topics(self._topology))
        if created:
            self._terminal.say(f"Created with {self._options.partitions} partitions: {', '.join(created)}")

    # --- the line ----------------------------------------------------------------------------------------------

    def _show(self, app: Streams) -> None:
        """Shows how the application does until it ends or is told to."""
        if self._terminal.is_interactive:
            with Live(console=self._terminal.console, auto_refresh=False) as live:
                while self._take(_REDRAW_SECONDS):
                    live.update(Text(self._line.text(app.state), no_wrap=True, overflow="ellipsis"), refresh=True)
        else:
            shown = ""
            next_line = 0.0
            while self._take(_LINE_SECONDS):
                facts = f"{app.state} {self._line.batches} {self._line.lag}"
                if facts != shown and time.monotonic() >= next_line:
                    self._terminal.say(self._line.text(app.state))
                    shown, next_line = facts, time.monotonic() + _LINE_SECONDS

    def _take(self, seconds: float) -> bool:
        """Takes in what has happened, waiting for it for a while; whether to go on."""
        try:
            event = self._events.get(timeout=seconds)
        except Empty:
            return True
        if isinstance(event, (_Stop, _Ended)):
            return False
        self._line.add(event)
        return True

    def _await_end(self, app: Streams, config: StreamsConfig) -> None:
        try:
            app.wait()
        except Exception:
            self._failed = True  # the main thread tells of it
        self._events.put(_Ended())

    def _follow_lag(self, app: Streams, config: StreamsConfig) -> None:
        assert config.application_id is not None
        topics = Topics(ClientSettings.of(config), _ANSWER_SECONDS)
        while not self._over.is_set():
            try:
                sources = sources_of(self._topology, topics.describe())
                self._line.lag = sum(each.lag for each in topics.lag(config.application_id, sources))
            except Exception as error:
                self._line.lag = None
                logger.debug("The lag is not known: %s", error)
            self._over.wait(_LAG_SECONDS)

    # --- the end -----------------------------------------------------------------------------------------------

    def _close(self, app: Streams) -> None:
        with self._terminal.busy("Finishing the batch"):
            app.close()
        while True:  # what the last batches reported
            try:
                event = self._events.get_nowait()
            except Empty:
                return
            if not isinstance(event, (_Stop, _Ended)):
                self._line.add(event)

    def _limit_the_end(self) -> None:
        if self._watchdog.ident is None:
            self._watchdog.start()

    def _leave(self) -> None:
        """Leaves whatever is still going on: what is not committed is done again at the next start."""
        self._terminal.say(f"Left without waiting any longer: {self._line.totals()}")
        logger.warning("closing took too long")
        os._exit(1 if self._failed else 0)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        self._install_handlers()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _install_handlers(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stops += 1
        if self._stops > 2:
            os._exit(128 + number)
        if self._starting:
            self._starting = False
            self._limit_the_end()
            raise Stopped
        self._events.put(_Stop())
