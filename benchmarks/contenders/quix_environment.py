"""The environment in which Quix Streams runs, made when it is first needed and kept in the cache."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from headrace.errors import EnvironmentFailed
from headrace.kafka.jars import cache_directory

VERSION = "3.28.1"

_READY = ".ready"


def quix_python() -> Path:
    """The interpreter of an environment that has Quix Streams."""
    name = f"quixstreams-{VERSION}-python{sys.version_info.major}.{sys.version_info.minor}"
    directory = cache_directory() / "environments" / name
    python = directory / "bin" / "python"
    if not (directory / _READY).exists():
        venv.create(directory, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "--quiet", f"quixstreams=={VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise EnvironmentFailed(f"Quix Streams {VERSION} could not be installed:\n{done.stdout}{done.stderr}")
        (directory / _READY).touch()
    return python
