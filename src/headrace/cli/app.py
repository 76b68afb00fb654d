"""The commands and their options."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Annotated, Any, TypeVar

import typer
from rich.table import Table

from headrace.cli import reset as resetting
from headrace.cli import run as running
from headrace.cli.applications import ApplicationTopic, topics_of
from headrace.cli.cluster import embedded, reachable, state_directory
from headrace.cli.dead_letters import read_dead_letters
from headrace.cli.loading import default_application_id, load_topology
from headrace.cli.terminal import Terminal
from headrace.config import StreamsConfig
from headrace.errors import ConfigError, EnvironmentFailed, HeadraceError
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import DEFAULT_PORT
from headrace.kafka.topics import Topics

app = typer.Typer(
    help="Kafka Streams for Python, on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Format(str, Enum):
    """How a topology is shown."""

    TEXT = "text"
    MERMAID = "mermaid"
    JSON = "json"


class LogLevel(str, Enum):
    """What the log file has."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_TopologyName = Annotated[
    str, typer.Argument(metavar="MODULE:NAME", help="A Topology, or a function without arguments that returns one.")
]
_AnyTopologyName = Annotated[
    str | None,
    typer.Argument(metavar="[MODULE:NAME]", help="The application's topology; or give --application-id."),
]
_Servers = Annotated[
    str | None, typer.Option("--bootstrap-servers", help="Kafka's host:port, …; the embedded Kafka by default.")
]
_StateDir = Annotated[
    Path | None, typer.Option("--state-dir", help="Where state is kept; ~/.local/state/headrace by default.")
]
_ApplicationId = Annotated[
    str | None, typer.Option("--application-id", help="The application's name; the module's last part by default.")
]


def _plain_errors(command: _Command) -> _Command:
    """Shows an error of Headrace's as its message alone."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except HeadraceError as error:
            Terminal().complain(str(error))
            raise typer.Exit(1) from None

    return guarded  # type: ignore[return-value]


@app.command()
@_plain_errors
def run(
    topology: _TopologyName,
    bootstrap_servers: _Servers = None,
    master: Annotated[str | None, typer.Option(help="Spark's master; this machine by default.")] = None,
    state_dir: _StateDir = None,
    application_id: _ApplicationId = None,
    create_topics: Annotated[
        bool, typer.Option("--create-topics", help="Make the topics that are missing, those written to as well.")
    ] = False,
    partitions: Annotated[int, typer.Option(min=1, help="Of the topics that --create-topics makes.")] = 4,
    log_level: Annotated[LogLevel, typer.Option(help="Of the log file; debug shows tracebacks.")] = LogLevel.INFO,
    log_file: Annotated[
        Path | None, typer.Option(help="The log file; <state dir>/logs/<application>.log by default.")
    ] = None,
) -> None:
    """Run a topology until it is stopped with Ctrl-C or SIGTERM."""
    found = load_topology(topology)
    config = _config(topology, application_id, bootstrap_servers, state_dir, master)
    options = running.RunOptions(create_topics, partitions, log_level.value, log_file)
    raise typer.Exit(running.run(found, config, options))


@app.command()
@_plain_errors
def describe(
    topology: _TopologyName,
    format: Annotated[Format, typer.Option(help="text is Kafka Streams' own.")] = Format.TEXT,
) -> None:
    """Print a topology."""
    description = load_topology(topology).describe()
    shown = {Format.TEXT: description.__str__, Format.MERMAID: description.to_mermaid, Format.JSON: description.to_json}
    typer.echo(shown[format]().rstrip())


@app.command()
@_plain_errors
def kafka(
    port: Annotated[int, typer.Option(min=0, max=65535, help="A free one is taken if it is in use.")] = DEFAULT_PORT,
    state_dir: _StateDir = None,
) -> None:
    """Run the embedded Kafka until it is stopped with Ctrl-C or SIGTERM."""
    terminal = Terminal()
    directory = state_directory(StreamsConfig.from_environment(**_given(state_dir=state_dir)))
    stops: SimpleQueue[int] = SimpleQueue()
    with embedded(directory, port, terminal) as broker:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, frame: stops.put(number))
        terminal.say(
            f"Kafka answers at {broker.bootstrap_servers}. Its data is in {directory / 'kafka'}. Ctrl-C ends it."
        )
        while broker.failure is None:
            try:
                stops.get(timeout=0.5)
                break
            except Empty:
                continue
        if broker.failure is not None:
            raise EnvironmentFailed(broker.failure)
    terminal.say("Stopped; the broker itself goes on as long as another process uses it.")


@app.command()
@_plain_errors
def topics(
    topology: _AnyTopologyName = None,
    application_id: _ApplicationId = None,
    bootstrap_servers: _Servers = None,
    state_dir: _StateDir = None,
) -> None:
    """List the topics of an application, with partitions and lag."""
    terminal = Terminal()
    found = None if topology is None else load_topology(topology)
    config = _config(topology, application_id, bootstrap_servers, state_dir)
    assert config.application_id is not None
    with reachable(config, Terminal(terminal.errors)) as connected:
        listed = topics_of(config.application_id, found, Topics(ClientSettings.of(connected)))
    if not listed:
        raise ConfigError(f"Kafka at {connected.bootstrap_servers} knows of no application {config.application_id}.")
    _show_topics(listed, terminal)


@app.command()
@_plain_errors
def reset(
    topology: _AnyTopologyName = None,
    application_id: _ApplicationId = None,
    bootstrap_servers: _Servers = None,
    state_dir: _StateDir = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Take an application back to the beginning: its group, internal topics, checkpoint and working copies go."""
    config = _config(topology, application_id, bootstrap_servers, state_dir)
    if not resetting.reset(config, lambda question: yes or typer.confirm(question), Terminal()):
        raise typer.Exit(1)


@app.command()
@_plain_errors
def dlq(
    topic: Annotated[str, typer.Argument(help="The dead letter topic.")],
    limit: Annotated[int, typer.Option(min=1, help="How many of the last ones.")] = 20,
    stack_trace: Annotated[bool, typer.Option("--stack-trace", help="With the errors' tracebacks.")] = False,
    bootstrap_servers: _Servers = None,
    state_dir: _StateDir = None,
) -> None:
    """Show the last dead letters of a topic, with the errors that made them."""
    config = StreamsConfig.from_environment(**_given(bootstrap_servers=bootstrap_servers, state_dir=state_dir))
    terminal = Terminal()
    with reachable(config, Terminal(terminal.errors)) as connected:
        letters = read_dead_letters(ClientSettings.of(connected), topic, limit)
    if not letters:
        terminal.say(f"{topic} has no dead letters.")
    for letter in letters:
        for line in letter.lines(stack_trace):
            terminal.say(line)


def _config(
    topology: str | None,
    application_id: str | None,
    bootstrap_servers: str | None,
    state_dir: Path | None,
    master: str | None = None,
) -> StreamsConfig:
    """The configuration: the command line's options, then the environment's, then what follows from the module."""
    given = _given(application_id=application_id, bootstrap_servers=bootstrap_servers, state_dir=state_dir)
    config = StreamsConfig.from_environment(**given)
    if config.application_id is None:
        if topology is None:
            raise ConfigError("Which application? Give its topology, module:name, or --application-id.")
        config = StreamsConfig.from_environment(**given, application_id=default_application_id(topology))
    if master is not None:
        config = replace(config, spark={**config.spark, "spark.master": master})
    return config


def _given(**options: Any) -> dict[str, Any]:
    return {name: str(value) for name, value in options.items() if value is not None}


def _show_topics(listed: list[ApplicationTopic], terminal: Terminal) -> None:
    rows = [
        (
            topic.name,
            topic.kind,
            "missing" if topic.partitions is None else str(topic.partitions),
            "" if topic.lag is None else f"{topic.lag}",
        )
        for topic in listed
    ]
    if terminal.is_interactive:
        table = Table("Topic", "Kind")
        table.add_column("Partitions", justify="right")
        table.add_column("Lag", justify="right")
        for row in rows:
            table.add_row(*row)
        terminal.console.print(table)
        return
    for row in (("TOPIC", "KIND", "PARTITIONS", "LAG"), *rows):
        terminal.say("\t".join(cell or "-" for cell in row))
