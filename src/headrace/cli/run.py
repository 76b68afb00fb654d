"""`headrace run`: an application in the foreground, until it fails or is told to stop."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.text import Text

from headrace.cli.applications import sources_of
from headrace.cli.cluster import reachable
from headrace.cli.companion import Companion
from headrace.cli.progress_line import ProgressLine
from headrace.cli.terminal import Terminal, chatter_in
from headrace.config import StreamsConfig
from headrace.errors import HeadraceError
from headrace.kafka.clients import ClientSettings
from headrace.kafka.partitions import source_topics
from headrace.kafka.topics import Topics, TopicSpec, fixed_sinks
from headrace.presence import running, state_directory
from headrace.spark.failures import explain
from headrace.streams import Streams
from headrace.topology import Topology

if TYPE_CHECKING:
    from fastapi import APIRouter

    from headrace.serving.config import ServingConfig
    from headrace.spark.progress import BatchProgress

logger = logging.getLogger(__name__)

_CLOSE_SECONDS = 9.0
_ANSWER_SECONDS = 10.0
_EMBEDDED_SECONDS = 60.0  # it runs: a machine with much to do is slow, not unreachable
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
    topics: tuple[TopicSpec, ...] = ()
    """Topics that --create-topics makes in another way than the rest."""
    serving: ServingConfig | None = None
    """How the instance is asked; None: not at all."""
    routers: tuple[APIRouter, ...] = ()
    leads: bool = True
    """Whether it may run the pipeline."""

    @property
    def port(self) -> int | None:
        """Where the instance is asked, if that is settled."""
        return None if self.serving is None else self.serving.port or None


class Stopped(BaseException):
    """A signal came while the application was starting."""


class _Stop:
    """Somebody wants the application to end."""


class _Ended:
    """The application has ended by itself."""


def run(topology: Topology, config: StreamsConfig, options: RunOptions, companion: Companion | None = None) -> int:
    """Runs the application; the answer is the exit code."""
    companion = companion or Companion()
    assert config.application_id is not None
    state_dir = state_directory(config)
    instance = config.application_id if not options.port else f"{config.application_id}-{options.port}"
    log_file = options.log_file or state_dir / "logs" / f"{instance}.log"
    with chatter_in(log_file, options.log_level) as terminal:
        try:
            terminal.say(companion.introduce(topology))
            terminal.say(f"Application {config.application_id}, state in {state_dir}, log in {log_file}")
            with running(state_dir, config.application_id):
                return _Run(topology, config, options, terminal, companion).run()
        except (Stopped, KeyboardInterrupt):  # the latter before signals are seen to
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


def _standing(app: Streams) -> str:
    """The state of the application, with what it waits for."""
    return app.state if app.trouble is None else f"{app.state}, {app.trouble}"


class _Run:
    """One run of an application: start, watch, stop."""

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        options: RunOptions,
        terminal: Terminal,
        companion: Companion,
    ) -> None:
        self._topology = topology
        self._config = config
        self._options = options
        self._terminal = terminal
        self._companion = companion
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
            stack.callback(self._companion.close)
            app = self._start(config)
            for task in (self._await_end, self._follow_lag):
                threading.Thread(target=task, args=(app, config), daemon=True).start()
            try:
                self._show(app)
            finally:
                if not self._companion.is_over:  # nobody waits for an end that was planned
                    self._limit_the_end()
                self._over.set()
                self._close(app)
            app.wait(0)  # raises what made it fail
            self._companion.finish()
            self._show_summary()
        self._terminal.say(f"Stopped: {self._line.totals()}")
        return 0

    def _start(self, config: StreamsConfig) -> Streams:
        options = self._options
        app = Streams(self._topology, config, serving=options.serving, routers=options.routers, leads=options.leads)
        app.on_progress(self._events.put)
        self._prepare_topics(config)
        self._companion.start(config, self._terminal)
        with self._terminal.busy("Starting Spark" if options.serving is None else "Joining the other instances"):
            app.start()
        if options.serving is not None:
            scheme = "https" if options.serving.uses_tls else "http"
            self._terminal.say(f"Answers at {scheme}://{app.address}, described at {scheme}://{app.address}/docs")
            self._companion.on_answering(f"{scheme}://{app.address}", self._terminal)
        self._starting = False
        self._install_handlers()  # Spark has put its own in the place of ours
        return app

    def _prepare_topics(self, config: StreamsConfig) -> None:
        """Sees that Kafka answers and the topics are there before Spark is started, which takes its time."""
        patience = _ANSWER_SECONDS if self._config.bootstrap_servers else _EMBEDDED_SECONDS
        topics = Topics(ClientSettings.of(config), patience)
        written = fixed_sinks(self._topology, config.dead_letter_queue_topic)
        with self._terminal.busy(f"Looking at the topics at {config.bootstrap_servers}"):
            known = topics.describe()
            if self._options.create_topics:
                wanted = [*source_topics(self._topology), *written]
                missing = [name for name in dict.fromkeys(wanted) if name not in known]
                special = {spec.name: spec for spec in self._options.topics}
                specs = [special.get(name, TopicSpec(name, self._options.partitions)) for name in missing]
                created = topics.create(specs, exist_ok=True)
            else:
                topics.require(source_topics(self._topology))
                if not topics.makes_what_is_written():
                    topics.require(written, "writes to")
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
            goes = self._companion.screen() is not None  # it is shown once more at the end
            with Live(console=self._terminal.console, auto_refresh=False, transient=goes) as live:
                while self._goes_on(_REDRAW_SECONDS):
                    line = Text(self._line.text(_standing(app)), no_wrap=True, overflow="ellipsis")
                    beside = self._companion.screen()
                    live.update(line if beside is None else Group(beside, line), refresh=True)
        else:
            shown = ""
            next_line = 0.0
            while self._goes_on(_LINE_SECONDS):
                if time.monotonic() < next_line:
                    continue
                facts = f"{_standing(app)} {self._line.batches} {self._line.lag}"
                news = self._companion.lines()
                if news or facts != shown:
                    self._say((*news, self._line.text(_standing(app))))
                    shown, next_line = facts, time.monotonic() + _LINE_SECONDS

    def _show_summary(self) -> None:
        beside = self._companion.screen()
        if self._terminal.is_interactive and beside is not None:
            self._terminal.console.print(beside)
        else:
            self._say(self._companion.summary())

    def _say(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._terminal.say(line)

    def _goes_on(self, seconds: float) -> bool:
        return self._take(seconds) and not self._companion.is_over

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
