"""Tells whether an error came of a full disk, and what to do about it."""

from __future__ import annotations

import errno
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from headrace.errors import DiskFull

_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded|MDB_MAP_FULL|ENOSPC")
_SHORT_WRITE = re.compile(r"\bmdb_\w+: Input/output error")  # a part of a page: there was no more room
_LITTLE_BYTES = 4 * 1024**2
_FULL = (errno.ENOSPC, errno.EDQUOT)


def disk_full(error: BaseException, state_dir: Path) -> DiskFull | None:
    """The error to raise where a full disk is behind it; None where it is not."""
    causes = list(causes_of(error))
    text = "\n".join(map(str, causes))
    is_full = (
        any(isinstance(cause, OSError) and cause.errno in _FULL for cause in causes)
        or _NO_SPACE.search(text) is not None
        or (_SHORT_WRITE.search(text) is not None and _free(state_dir) < _LITTLE_BYTES)
    )
    if not is_full:
        return None
    found = DiskFull(_message(state_dir))
    found.__cause__ = error
    return found


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__


def _message(state_dir: Path) -> str:
    places = [state_dir, Path(tempfile.gettempdir())]
    full = next((place for place in places if _free(place) < _LITTLE_BYTES), state_dir)
    what = "the state directory" if full == state_dir else "the directory for temporary files"
    return (
        f"The disk is full: {what} {full} has {_free(full) // 1024} KB left. Nothing was lost: make room there and "
        "start again, and the application goes on after the last batch that was committed."
    )


def _free(place: Path) -> int:
    while not place.exists() and place != place.parent:
        place = place.parent
    return shutil.disk_usage(place).free
