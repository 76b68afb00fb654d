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

from headrace.cli import query as querying
from headrace.cli import reset as resetting
from headrace.cli import run as running
from headrace.cli.applications import ApplicationTopic, topics_of
from headrace.cli.cluster import embedded, reachable
from headrace.cli.dead_letters import read_dead_letters
from headrace.cli.demo import DemoOptions, run_demo
from headrace.cli.examples import load_demo
from headrace.cli.loading import default_application_id, importable_files, load_config, load_routers, load_topology
from headrace.cli.terminal import Terminal
from headrace.config import StreamsConfig
from headrace.errors import ConfigError, EnvironmentFailed, HeadraceError
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import DEFAULT_PORT
from headrace.kafka.topics import Topics
from headrace.presence import state_directory
from headrace.serving.config import LOCALHOST, ServingConfig

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
_Host = Annotated[str, typer.Option(help="The address to listen on; others than 127.0.0.1 need tokens.")]
_Advertise = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Where clients and other instances reach this one.")
]
_TlsCertificate = Annotated[Path | None, typer.Option("--tls-certificate", help="A PEM file: answer over HTTPS.")]
_TlsKey = Annotated[Path | None, typer.Option("--tls-key", help="The certificate's key, a PEM file.")]
_TlsAuthority = Annotated[Path | None, typer.Option("--tls-authority", help="What other instances are trusted by.")]
_Standbys = Annotated[
    int | None, typer.Option("--standbys", min=0, help="How many further instances follow each partition.")
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
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Answer for the stores at this port, as one of the instances.")
    ] = None,
    host: _Host = LOCALHOST,
    advertise: _Advertise = None,
    tls_certificate: _TlsCertificate = None,
    tls_key: _TlsKey = None,
    tls_authority: _TlsAuthority = None,
    standbys: _Standbys = None,
    py_files: Annotated[
        str | None, typer.Option("--py-files", help="Modules for the executors: a.zip,b.py,…; yours are sent anyway.")
    ] = None,
    state_dir: _StateDir = None,
    application_id: _ApplicationId = None,
    create_topics: Annotated[
        bool, typer.Option("--create-topics", help="Make the topics that are missing, those written to as well.")
    ] = False,
    partitions: Annotated[int, typer.Option(min=1, help="Of the topics that --create-topics makes.")] = 4,
    log_level: Annotated[
        LogLevel, typer.Option(help="Of the log file; Spark's own there is a step quieter. debug shows tracebacks.")
    ] = LogLevel.INFO,
    log_file: Annotated[
        Path | None, typer.Option(help="The log file; <state dir>/logs/<application>.log by default.")
    ] = None,
) -> None:
    """Run a topology until it is stopped with Ctrl-C or SIGTERM; with --port, as one of several instances."""
    shipped = None if py_files is None else importable_files(py_files)
    found = load_topology(topology)
    config = _config(
        topology,
        application_id,
        bootstrap_servers,
        state_dir,
        **{"spark.master": master, "spark.submit.pyFiles": shipped},
    )
    serving = None
    if port is not None:
        serving = _serving(port, host, advertise, tls_certificate, tls_key, tls_authority)
    options = running.RunOptions(
        create_topics,
        partitions,
        log_level.value,
        log_file,
        serving=serving,
        routers=() if serving is None else load_routers(topology),
    )
    raise typer.Exit(running.run(found, _with_standbys(config, standbys), options))


@app.command()
@_plain_errors
def serve(
    topology: _TopologyName,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to answer.")] = 8080,
    host: _Host = LOCALHOST,
    advertise: _Advertise = None,
    tls_certificate: _TlsCertificate = None,
    tls_key: _TlsKey = None,
    tls_authority: _TlsAuthority = None,
    standbys: _Standbys = None,
    bootstrap_servers: _Servers = None,
    state_dir: _StateDir = None,
    application_id: _ApplicationId = None,
    log_level: Annotated[LogLevel, typer.Option(help="Of the log file.")] = LogLevel.INFO,
    log_file: Annotated[
        Path | None, typer.Option(help="The log file; <state dir>/logs/<application>.log by default.")
    ] = None,
) -> None:
    """Answer for the stores of an application as one of its instances, without ever running its pipeline."""
    found = load_topology(topology)
    config = _with_standbys(_config(topology, application_id, bootstrap_servers, state_dir), standbys)
    options = running.RunOptions(
        False,
        1,
        log_level.value,
        log_file,
        serving=_serving(port, host, advertise, tls_certificate, tls_key, tls_authority),
        routers=load_routers(topology),
        leads=False,
    )
    raise typer.Exit(running.run(found, config, options))


@app.command()
@_plain_errors
def query(
    store: Annotated[str, typer.Argument(help="The store's name.")],
    key: Annotated[str | None, typer.Argument(help="The key; all of them without.")] = None,
    url: Annotated[str, typer.Option(envvar="HEADRACE_URL", help="Any instance.")] = "http://127.0.0.1:8080",
    low: Annotated[str | None, typer.Option("--from", help="The first key; of windows and sessions, the time.")] = None,
    high: Annotated[str | None, typer.Option("--to", help="The last key, or time.")] = None,
    prefix: Annotated[str | None, typer.Option(help="What the keys begin with.")] = None,
    as_of: Annotated[str | None, typer.Option(help="The time of the value, in a versioned store.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
    token: Annotated[str | None, typer.Option(envvar="HEADRACE_TOKEN", help="What the instance wants to see.")] = None,
    json: Annotated[bool, typer.Option("--json", help="A line of JSON for each.")] = False,
) -> None:
    """Ask a running application for what is in a store."""
    asked = querying.Question(store, key, low, high, prefix, as_of, limit)
    if not querying.query(url, token, asked, Terminal(), as_json=json):
        raise typer.Exit(1)


@app.command()
@_plain_errors
def demo(
    name: Annotated[str, typer.Argument(help="The example, such as orders.")],
    rate: Annotated[float, typer.Option(min=0.1, help="Messages a second.")] = 20.0,
    seed: Annotated[int, typer.Option(help="Of the messages: the same seed, the same messages.")] = 1,
    messages: Annotated[int | None, typer.Option(min=1, help="End when so many were sent and processed.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="End so long after the first result.")] = None,
    state_dir: Annotated[
        Path | None, typer.Option("--state-dir", help="Where state is kept; by default it is thrown away.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Of the dashboard and the REST interface; 8080 if it is free.")
    ] = None,
) -> None:
    """Run an example, with Kafka, topics, data, a dashboard and its results on the screen, until Ctrl-C."""
    raise typer.Exit(run_demo(name, load_demo(name), DemoOptions(rate, seed, messages, seconds, state_dir, port)))


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
    """Take an application back to the beginning: its group, internal topics and working copies go."""
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
    **spark: str | None,
) -> StreamsConfig:
    """The configuration: the command line's options, then the environment's, then the module's `config`."""
    given = _given(application_id=application_id, bootstrap_servers=bootstrap_servers, state_dir=state_dir)
    base = None if topology is None else load_config(topology)
    config = StreamsConfig.from_environment(None, base, **given)
    if config.application_id is None:
        if topology is None:
            raise ConfigError("Which application? Give its topology, module:name, or --application-id.")
        config = replace(config, application_id=default_application_id(topology))
    chosen = {name: value for name, value in spark.items() if value is not None}
    return replace(config, spark={**config.spark, **chosen})


def _serving(
    port: int,
    host: str,
    advertise: str | None,
    certificate: Path | None,
    key: Path | None,
    authority: Path | None,
) -> ServingConfig:
    """How the instance is asked; its tokens come from the environment."""
    return ServingConfig.from_environment(
        port=port,
        host=host,
        advertise=advertise,
        tls_certificate=certificate,
        tls_key=key,
        tls_authority=authority,
    )


def _with_standbys(config: StreamsConfig, standbys: int | None) -> StreamsConfig:
    return config if standbys is None else replace(config, num_standby_replicas=standbys)


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
