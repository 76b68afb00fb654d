"""Directories and files that only the user who runs the application can read: they hold the content of stores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

PRIVATE_FILE = 0o600
PRIVATE_UMASK = 0o077
"""For child processes: what they create is private too."""
_PRIVATE_DIRECTORY = 0o700


def make_private_directory(path: Path) -> None:
    """Creates a directory and those above it that are missing; existing ones stay as they are."""
    if path.is_dir():
        return
    if path.parent != path:
        make_private_directory(path.parent)
    try:
        path.mkdir(_PRIVATE_DIRECTORY)
    except FileExistsError:
        if not path.is_dir():
            raise


def open_private(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Opens a file to write; one that is new is private."""
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, PRIVATE_FILE), **options)
