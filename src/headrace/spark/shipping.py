"""What runs on the executors of a cluster is shipped with the job: Headrace itself and the user's modules."""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import re
import shutil
import site
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import headrace
from headrace.errors import EnvironmentFailed
from headrace.spark.masters import is_local

if TYPE_CHECKING:
    from pyspark import SparkContext

logger = logging.getLogger(__name__)

NEEDED = ("pyspark", "lmdb", "confluent_kafka", "msgspec")
"""What executors must have, as it is not Python alone."""
_TOO_MUCH = 50 << 20
_WRONG_PYTHON = (
    r"Python in worker has different version: \S+ than that in driver: \d+\.\d+",
    r"Cannot run program [^\n]*",
    r"No module named '?pyspark[^\n]*",
)
_MAIN = ("__main__", "__mp_main__")


def ship_code(context: SparkContext) -> None:
    """Sends Headrace and the user's modules to the executors of a cluster, and sees whether they can run them."""
    if is_local(context.master):
        return
    check_executors(context)
    # Executors fetch the archives when they need them: they must be there as long as Spark is.
    directory = Path(tempfile.mkdtemp(prefix="headrace-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    context.addPyFile(str(packed("headrace", [headrace], directory)))
    users = user_modules(sys.modules)
    if users:
        logger.info("shipped to the executors: %s", ", ".join(sorted(module.__name__ for module in users)))
        context.addPyFile(str(packed("application", users, directory)))


# --- which modules -----------------------------------------------------------------------------------------------


def user_modules(loaded: Mapping[str, ModuleType | None]) -> list[ModuleType]:
    """The modules and packages on top that were imported and are not installed, in this process as it is now."""
    installed = _installed()
    found = []
    for name, module in sorted(loaded.items()):
        if module is None or "." in name or name in _MAIN or name == headrace.__name__:
            continue
        places = [Path(place).resolve() for place in _places(module)]
        if places and not any(place.is_relative_to(root) for place in places for root in installed):
            found.append(module)
    return found


def _places(module: ModuleType) -> list[str]:
    """The module's file, or the directories of a package."""
    try:
        directories = [str(path) for path in getattr(module, "__path__", ())]
    except TypeError:
        return []
    if directories:
        return [path for path in directories if os.path.isdir(path)]
    file = getattr(module, "__file__", None)
    return [file] if isinstance(file, str) and file.endswith(".py") and os.path.isfile(file) else []


def _installed() -> list[Path]:
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths += [*site.getsitepackages(), site.getusersitepackages()]
    return [Path(path).resolve() for path in paths if path]


# --- the archives ------------------------------------------------------------------------------------------------


def packed(name: str, modules: Sequence[ModuleType], directory: Path) -> Path:
    """An archive of whole packages and single modules, to be put on Python's path; what differs has another name."""
    draft = directory / f"{name}.zip"
    content = hashlib.sha256()
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as out:
        for path, file in _contents(modules):
            data = b"" if file is None else file.read_bytes()
            out.writestr(path, data)
            content.update(path.encode() + data)
    size = draft.stat().st_size
    if size > _TOO_MUCH:
        logger.warning("%d MB are shipped to each executor: %s", size >> 20, ", ".join(m.__name__ for m in modules))
    return draft.rename(directory / f"{name}-{content.hexdigest()[:12]}.zip")


def _contents(modules: Iterable[ModuleType]) -> Iterator[tuple[str, Path | None]]:
    """The files of the modules by their paths in the archive; None for a directory."""
    directories: set[str] = set()
    for module in modules:
        for place in map(Path, _places(module)):
            root = place if place.is_dir() else place.parent
            inside = Path(module.__name__ if place.is_dir() else "")
            for file in _files(place):
                path = inside / file.relative_to(root)
                # Packages without an __init__.py are found in an archive by their directories alone.
                for above in sorted({f"{parent.as_posix()}/" for parent in path.parents if parent.name} - directories):
                    directories.add(above)
                    yield above, None
                yield path.as_posix(), file


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    for directory, below, names in os.walk(place):
        below[:] = sorted(name for name in below if not name.startswith(".") and name != "__pycache__")
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith((".pyc", *EXTENSION_SUFFIXES)):
                yield Path(directory, name)


# --- the executors -----------------------------------------------------------------------------------------------


def check_executors(context: SparkContext, needed: Iterable[str] = NEEDED) -> None:
    """Raises EnvironmentFailed where an executor lacks what it needs to run tasks."""
    names = tuple(needed)

    # A function inside a function is shipped as it is, so it runs where Headrace is not to be had yet.
    def look(numbers: Iterator[int]) -> Iterator[tuple[str, str, list[str]]]:
        import importlib.util
        import socket
        import sys

        missing = [name for name in names if importlib.util.find_spec(name) is None]
        yield socket.gethostname(), sys.executable, missing

    parts = max(2, context.defaultParallelism)
    try:
        seen = context.parallelize(range(parts), parts).mapPartitions(look).collect()
    except Exception as error:
        reason = wrong_python(str(error))
        if reason is None:
            raise
        raise EnvironmentFailed(
            f"The executors of {context.master} cannot run Python as needed: {reason}. They need Python "
            f"{sys.version_info.major}.{sys.version_info.minor} as here; spark.pyspark.python says where it is on them."
        ) from error
    lacking = sorted({(host, python, tuple(missing)) for host, python, missing in seen if missing})
    if lacking:
        listed = "\n".join(f"  {host}: {python} has no {', '.join(missing)}" for host, python, missing in lacking)
        raise EnvironmentFailed(
            f"Executors of {context.master} lack what tasks need:\n{listed}\n"
            "Install it there (pip install 'headrace[spark]'), or name another Python with spark.pyspark.python."
        )


def wrong_python(text: str) -> str | None:
    """What an error says of the executors' Python, None if it is about something else."""
    for pattern in _WRONG_PYTHON:
        found = re.search(pattern, text)
        if found is not None:
            return found[0].strip().rstrip(".")
    return None
