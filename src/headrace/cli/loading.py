"""Finds the topology that `module:name` stands for."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

from headrace.config import StreamsConfig
from headrace.dsl.builder import StreamsBuilder
from headrace.errors import ConfigError, HeadraceError
from headrace.topology import Topology

_T = TypeVar("_T")


def load_topology(reference: str) -> Topology:
    """The topology named `module:name`, or the one that the function of that name returns."""
    module_name, name = _parts(reference)
    found = _member(_module(module_name), name, reference)
    if isinstance(found, Topology):
        return found
    if isinstance(found, StreamsBuilder):
        raise ConfigError(f"{reference} is a StreamsBuilder, not yet a topology: name what its build() returns")
    if not callable(found):
        raise ConfigError(f"{reference} is {_kind(found)}: a Topology is needed, or a function that returns one")
    _check_no_arguments(found, reference)
    topology = _guarded(found, f"{reference} failed")
    if not isinstance(topology, Topology):
        raise ConfigError(f"{reference} returned {_kind(topology)}: it must return a Topology, as build() does")
    return topology


def load_config(reference: str) -> StreamsConfig | None:
    """The configuration that the module of `module:name` has under the name `config`, if any."""
    found = getattr(_module(_parts(reference)[0]), "config", None)
    return found if isinstance(found, StreamsConfig) else None


def load_routers(reference: str) -> tuple[Any, ...]:
    """The endpoints of the application's own: the FastAPI router that its module has under the name `router`."""
    from fastapi import APIRouter

    found = getattr(_module(_parts(reference)[0]), "router", None)
    return (found,) if isinstance(found, APIRouter) else ()


def default_application_id(reference: str) -> str:
    """An application's id where none is given: the module's last part, in characters that topics may have."""
    module_name, _ = _parts(reference)
    return re.sub(r"[^a-zA-Z0-9._-]", "-", module_name.rpartition(".")[2])


def make_importable(directory: str) -> None:
    """Lets modules of the directory be imported, here and in the processes that are started from here."""
    if directory not in sys.path:
        sys.path.insert(0, directory)
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if directory not in inherited:
        os.environ["PYTHONPATH"] = os.pathsep.join([directory, *inherited])


def importable_files(listed: str) -> str:
    """Lets what is in the archives and modules `a.zip,b.py` be imported; answers with their full paths, as listed."""
    paths = []
    for name in filter(None, (part.strip() for part in listed.split(","))):
        path = os.path.abspath(os.path.expanduser(name))
        if not os.path.isfile(path):
            raise ConfigError(f"There is no file {name} to be sent to the executors.")
        make_importable(os.path.dirname(path) if path.endswith(".py") else path)
        paths.append(path)
    return ",".join(paths)


def _parts(reference: str) -> tuple[str, str]:
    module_name, separator, name = reference.partition(":")
    if not separator or not module_name or not name:
        raise ConfigError(f"module:name is needed, such as examples.orders:topology, not {reference!r}")
    if module_name.endswith(".py") or "/" in module_name:
        dotted = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise ConfigError(f"{module_name} is a file: give the module, {dotted}:{name}")
    return module_name, name


def _module(name: str) -> ModuleType:
    make_importable(os.getcwd())
    try:
        return _guarded(lambda: importlib.import_module(name), f"the module {name} cannot be imported")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"There is no module {error.name} in {os.getcwd()}, nor is one installed. "
            "Start in the directory that holds it."
        ) from None


def _member(module: ModuleType, name: str, reference: str) -> Any:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            public = [known for known in vars(module) if not known.startswith("_")]
            close = difflib.get_close_matches(name, public, 3, 0.5)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise ConfigError(f"The module {module.__name__} has no {name}.{hint}")
        found = getattr(found, part)
    return found


def _check_no_arguments(function: Callable[..., Any], reference: str) -> None:
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise ConfigError(f"{reference} is called without arguments: {error}") from None
    except ValueError:  # it does not tell its signature
        pass


def _guarded(call: Callable[[], _T], what: str) -> _T:
    """Calls the user's code; what it raises is told with the user's file and line."""
    try:
        return call()
    except HeadraceError:
        raise
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
        users = [frame for frame in frames if frame.filename != __file__]
        if isinstance(error, ModuleNotFoundError) and not users:
            raise
        if isinstance(error, SyntaxError):
            place = f" ({error.filename}, line {error.lineno})"
        else:
            place = f" ({users[-1].filename}, line {users[-1].lineno})" if users else ""
        raise ConfigError(f"{what}: {type(error).__name__}: {error}{place}") from error


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
