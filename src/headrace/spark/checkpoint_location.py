"""Where an application's checkpoint is: Spark's, the state files and what the topology was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.config import StreamsConfig
from headrace.spark.file_systems import FileDirectory, local_path, open_directory
from headrace.spark.masters import MASTER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCATION = "spark.sql.streaming.checkpointLocation"
"""Spark's setting for the directory of all checkpoints."""


@dataclass(frozen=True)
class CheckpointLocation:
    """The directory of one application's checkpoint, below the one of all."""

    base: str
    """A path, or the URI of another file system."""

    @classmethod
    def of(cls, config: StreamsConfig, state_dir: Path) -> CheckpointLocation:
        """The location that Spark's setting gives, or one below the state directory."""
        assert config.application_id is not None
        given = str(config.spark.get(LOCATION) or "")
        if not given:
            return cls.below(state_dir, config.application_id)
        path = local_path(given)
        return cls(f"{given.rstrip('/') if path is None else path}/{config.application_id}")

    @classmethod
    def below(cls, state_dir: Path, application_id: str) -> CheckpointLocation:
        """The location below the state directory, where no other is given."""
        return cls(str(state_dir.expanduser().absolute() / "checkpoints" / application_id))

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine's disk."""
        return local_path(self.base) is not None

    @property
    def spark(self) -> str:
        """The URI of Spark's own checkpoint."""
        return f"{'file://' if self.is_local else ''}{self.base}/spark"

    def root(self, session: SparkSession | None = None) -> FileDirectory:
        """The directory as a whole; one that is not local needs a session."""
        return open_directory(self.base, session)

    def state(self, session: SparkSession | None = None) -> FileDirectory:
        """The directory of the state files."""
        return open_directory(f"{self.base}/state", session)

    @contextmanager
    def opened(self, settings: Mapping[str, Any]) -> Iterator[FileDirectory]:
        """The directory as a whole, with a small Spark session of its own for the while where that takes one."""
        if self.is_local:
            yield self.root()
            return
        from headrace.spark.session import make_session

        here = {**settings, MASTER: "local[1]"}
        session = make_session("headrace-checkpoint", checkpoint=self.spark, settings=here)
        try:
            yield self.root(session)
        finally:
            session.stop()
