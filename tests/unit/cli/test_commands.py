"""What a user sees of the commands that need neither Kafka nor Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.errors import StreamsError
from headrace.presence import at_rest, running

TOPOLOGY = """
from headrace import Consumed, Produced, Serdes, StreamsBuilder

text = Serdes.string()
builder = StreamsBuilder()
builder.stream("in", Consumed(key=text, value=text)).to("out", Produced(key=text, value=text))
ready = builder.build()

def topology():
    return ready

def of_a_region(region):
    return ready

def forgetful():
    builder

def broken():
    return {}["orders"]

number = 3
"""

Module = Callable[[str, str], None]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Module]:
    """Writes a module into the current directory, which is a directory of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    for name in ("HEADRACE_APPLICATION_ID", "HEADRACE_BOOTSTRAP_SERVERS", "HEADRACE_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)

    def write(name: str, content: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    yield write
    for name, imported in list(sys.modules.items()):
        if str(getattr(imported, "__file__", None)).startswith(str(tmp_path)) or name == "retail":
            del sys.modules[name]


def headrace(*arguments: str, answer: str = "") -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments, input=answer)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize("name", ["ready", "topology"])
def test_describe_prints_a_topology_or_what_a_function_returns(module: Module, name: str) -> None:
    module("shop.py", TOPOLOGY)

    assert headrace("describe", f"shop:{name}") == (
        0,
        "Topologies:\n   Sub-topology: 0\n    Source: KSTREAM-SOURCE-0000000000 (topics: [in])\n"
        "      --> KSTREAM-SINK-0000000001\n    Sink: KSTREAM-SINK-0000000001 (topic: out)\n"
        "      <-- KSTREAM-SOURCE-0000000000\n",
    )


def test_describe_has_other_formats(module: Module) -> None:
    module("shop.py", TOPOLOGY)

    assert headrace("describe", "shop:ready", "--format", "mermaid")[1].startswith("flowchart TD\n")
    nodes = json.loads(headrace("describe", "shop:ready", "--format", "json")[1])["subtopologies"][0]["nodes"]
    assert [node["topics"] for node in nodes] == [["in"], ["out"]]


def test_a_module_may_be_in_a_package(module: Module) -> None:
    module("retail/shop.py", TOPOLOGY)

    assert headrace("describe", "retail.shop:ready")[0] == 0


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("shop", "module:name is needed, such as examples.orders:topology, not 'shop'"),
        ("retail/shop.py:ready", "retail/shop.py is a file: give the module, retail.shop:ready"),
        ("shopp:ready", "There is no module shopp in"),
        ("shop:topologi", "The module shop has no topologi. Did you mean topology?"),
        ("shop:number", "shop:number is a int: a Topology is needed, or a function that returns one"),
        ("shop:builder", "shop:builder is a StreamsBuilder, not yet a topology: name what its build() returns"),
        ("shop:of_a_region", "shop:of_a_region is called without arguments: missing a required argument: 'region'"),
        ("shop:forgetful", "shop:forgetful returned None: it must return a Topology, as build() does"),
        ("shop:broken", "shop:broken failed: KeyError: 'orders'"),
    ],
)
@pytest.mark.parametrize("command", ["describe", "run"])
def test_what_is_no_topology_is_told_in_a_line(module: Module, command: str, reference: str, message: str) -> None:
    module("shop.py", TOPOLOGY)

    code, output = headrace(command, reference)

    assert code == 1
    assert output.startswith(message)
    assert "Traceback" not in output


def test_an_error_in_the_module_names_the_users_line(module: Module, tmp_path: Path) -> None:
    module("shop.py", "\nimport no_such_package\n")
    module("typo.py", "def topology(:\n")
    module(
        "empty.py", "from headrace import StreamsBuilder\nStreamsBuilder().stream('in').map_values(lambda a, b, c: 1)"
    )

    assert headrace("describe", "shop:ready") == (
        1,
        "the module shop cannot be imported: ModuleNotFoundError: No module named 'no_such_package' "
        f"({tmp_path}/shop.py, line 2)\n",
    )
    assert f"({tmp_path}/typo.py, line 1)" in headrace("describe", "typo:ready")[1]
    code, output = headrace("describe", "empty:ready")
    assert code == 1
    assert "map_values" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("command", ["topics", "reset"])
def test_topics_and_reset_need_an_application(module: Module, command: str) -> None:
    assert headrace(command) == (1, "Which application? Give its topology, module:name, or --application-id.\n")


def test_settings_of_the_environment_that_are_wrong_are_named(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    module("shop.py", TOPOLOGY)
    monkeypatch.setenv("HEADRACE_COMMIT_INTERVAL", "soon")

    code, output = headrace("run", "shop:ready")

    assert code == 1
    assert output.startswith("HEADRACE_COMMIT_INTERVAL='soon': a duration is a number with a unit")


def test_an_application_that_runs_is_not_reset(module: Module, tmp_path: Path) -> None:
    with running(tmp_path, "shop"):
        answer = headrace("reset", "--application-id", "shop", "--state-dir", str(tmp_path), "--yes")

    assert answer == (1, "The application shop is running: stop it first. Nothing was touched.\n")


def test_an_application_that_is_being_reset_does_not_start(tmp_path: Path) -> None:
    with (
        at_rest(tmp_path, "shop"),
        pytest.raises(StreamsError, match="is being reset at this moment"),
        running(tmp_path, "shop"),
    ):
        pass


def test_two_processes_may_run_one_application_as_kafka_fences_the_first(tmp_path: Path) -> None:
    with running(tmp_path, "shop"), running(tmp_path, "shop"):
        pass
    with at_rest(tmp_path, "shop"):
        pass
