"""Directories of files, on this machine's disk or on any other file system that Spark knows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from headrace.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILE = "file:"
_CHUNK = 4 << 20
"""How many bytes go through the gateway to Java at once."""


class FileDirectory(Protocol):
    """A directory of files, each of which is written once as a whole."""

    location: str

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if there is none of that name."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Writes a file of a new name, whole or not at all, and durably."""
        ...

    def names(self) -> Set[str]:
        """The files that are there."""
        ...

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        ...

    def remove_all(self) -> None:
        """Removes the directory with everything below it."""
        ...


def local_path(location: str) -> Path | None:
    """The path of a location on this machine's disk; None for another file system's."""
    if location.startswith(_FILE):
        path = location.removeprefix(_FILE)
        host, slash, rest = path.removeprefix("//").partition("/") if path.startswith("//") else ("", "/", path[1:])
        if host or not slash or not path.startswith("/"):
            raise ConfigError(f"{location} is not a path of this machine: write file:///path")
        return Path("/", rest.lstrip("/"))
    return None if "://" in location else Path(location).expanduser().absolute()


def open_directory(location: str, session: SparkSession | None = None) -> FileDirectory:
    """The directory at a path or URI; for other file systems than this machine's, a Spark session is needed."""
    path = local_path(location)
    if path is not None:
        return LocalDirectory(path)
    assert session is not None, f"{location} can be reached through Spark only"
    return SparkDirectory(location, session)


class LocalDirectory:
    """A directory on this machine's disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.location = str(path)

    def read(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        scratch = self._path / f".{name}.tmp"
        try:
            out = scratch.open("wb")
        except FileNotFoundError:
            self._path.mkdir(parents=True, exist_ok=True)
            out = scratch.open("wb")
        with out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        scratch.replace(self._path / name)

    def names(self) -> Set[str]:
        try:
            return set(os.listdir(self._path))
        except FileNotFoundError:
            return set()

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def remove_all(self) -> None:
        if self._path.exists():
            shutil.rmtree(self._path)


class SparkDirectory:
    """A directory on a file system of Hadoop's, through the classes that write Spark's own checkpoints there."""

    def __init__(self, location: str, session: SparkSession) -> None:
        self.location = location
        jvm: Any = session._jvm
        configuration = session._jsparkSession.sessionState().newHadoopConf()
        self._new_path = jvm.org.apache.hadoop.fs.Path
        self._path = self._new_path(location)
        checkpointing = jvm.org.apache.spark.sql.execution.streaming.checkpointing
        self._files = checkpointing.CheckpointFileManager.create(self._path, configuration)
        self._made = False

    def read(self, name: str) -> bytes | None:
        path = self._file(name)
        if not self._files.exists(path):
            return None
        source = self._files.open(path)
        try:
            chunks = []
            while chunk := source.readNBytes(_CHUNK):
                chunks.append(chunk)
            return b"".join(chunks)
        finally:
            source.close()

    def write(self, name: str, content: bytes) -> None:
        if not self._made:
            self._files.mkdirs(self._path)
            self._made = True
        out = self._files.createAtomic(self._file(name), True)
        try:
            for start in range(0, len(content), _CHUNK):
                out.write(content[start : start + _CHUNK])
        except BaseException:
            out.cancel()
            raise
        out.close()

    def names(self) -> Set[str]:
        if not self._files.exists(self._path):
            return set()
        return {status.getPath().getName() for status in self._files.list(self._path)}

    def remove(self, name: str) -> None:
        self._files.delete(self._file(name))

    def remove_all(self) -> None:
        self._files.delete(self._path)

    def _file(self, name: str) -> Any:
        return self._new_path(self._path, name)
