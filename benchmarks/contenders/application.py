"""An application: who runs which topology on which topics."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.orders import PARTITIONS
from headrace.config import AT_LEAST_ONCE as AT_LEAST_ONCE_GUARANTEE
from headrace.config import EXACTLY_ONCE_V2

HEADRACE = "headrace"
KAFKA_STREAMS = "kafka-streams"
AT_LEAST_ONCE = "headrace-at-least-once"
CONTENDERS = (HEADRACE, KAFKA_STREAMS)
"""Those of the race; what exactly once costs is seen beside it."""
QUIX_STREAMS = "quix-streams"
PYSPARK = "pyspark"
RIVALS = (QUIX_STREAMS, PYSPARK)
"""What else there is for Python; each runs with the strongest guarantee it has."""
GUARANTEES = {
    HEADRACE: "exactly once",
    KAFKA_STREAMS: "exactly once",
    AT_LEAST_ONCE: "at least once",
    QUIX_STREAMS: "exactly once",
    PYSPARK: "at least once",
}

REPARTITION = "by-location"
"""The name of the repartition in the topology that has one."""
REPARTITIONED = ("windows",)


@dataclass(frozen=True)
class Application:
    """One application: who runs which topology on which topics."""

    contender: str
    application_id: str
    topology: str
    sources: tuple[str, ...]
    """The topics it reads, the orders first."""
    partitions: int = PARTITIONS
    batch_records: int | None = None
    """How many records a batch of Headrace's has at most; None is its default."""

    @property
    def guarantee(self) -> str:
        """How often a record takes effect."""
        return AT_LEAST_ONCE_GUARANTEE if self.contender == AT_LEAST_ONCE else EXACTLY_ONCE_V2

    @property
    def output(self) -> str:
        """The topic it writes to."""
        return f"{self.application_id}-out"

    @property
    def repartition(self) -> str | None:
        """The topic through which records pass on their way; a shuffle inside a batch is none."""
        if self.contender == KAFKA_STREAMS and self.topology in REPARTITIONED:
            return f"{self.application_id}-{REPARTITION}-repartition"
        if self.contender == QUIX_STREAMS and self.topology in REPARTITIONED:
            return f"repartition__{self.application_id}--{self.sources[0]}--{REPARTITION}"
        return None
