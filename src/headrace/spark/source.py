"""What a batch reads: Spark's Kafka source plans the offsets, the workers read the records themselves.

Spark's source is what keeps the query going: it finds topics and partitions, limits a batch, and writes down what each
batch covers. Its rows are not asked for. A record that comes through the JVM is made a row, then a cell of Arrow's,
then a Python object; read by the worker it is a Python object at once, in half the time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from headrace.kafka.clients import ClientSettings
from headrace.spark.layout import Layout, java_pattern

_PLANNED = re.compile(r"KafkaOffsetRange\((?P<topic>.+)-(?P<partition>\d+),(?P<start>\d+),(?P<end>\d+),")


@dataclass(frozen=True)
class Range:
    """Consecutive offsets of a partition."""

    topic: str
    partition: int
    start: int
    end: int
    """The offset after the last."""

    @property
    def place(self) -> str:
        """The name of the partition."""
        return f"{self.topic}-{self.partition}"


def read_stream(
    session: SparkSession, settings: ClientSettings, layout: Layout, options: Mapping[str, str]
) -> DataFrame:
    """A stream whose batches cover all topics that tasks read, and those that loop."""
    topics = [topic for topic in layout.readers if topic not in layout.shuffled]
    names = [*topics, *layout.global_topics]
    reader = session.readStream.format("kafka").options(**settings.spark())
    if layout.patterns:
        escaped = [name.replace(".", "\\.") for name in names]
        patterns = [java_pattern(pattern) for pattern in layout.patterns]
        # Spark is content with a topic of which the pattern means a part.
        reader = reader.option("subscribePattern", f"^(?:{'|'.join([*escaped, *patterns])})$")
    else:
        reader = reader.option("subscribe", ",".join(names))
    defaults = {
        "startingOffsets": layout.starting_offsets,
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": "400000",
        "kafka.isolation.level": "read_committed",
    }
    return reader.options(**{**defaults, **options}).load()


def ranges_of(frame: DataFrame) -> list[Range]:
    """What Spark's source would read for a batch, by topic, partition and offset."""
    planned = [
        partition.inputPartition().get().offsetRange().toString()
        for partition in frame._jdf.queryExecution().toRdd().partitions()
    ]
    found = [_PLANNED.match(text) for text in planned]
    assert all(found), f"Spark's Kafka source plans in an unknown form: {planned}"
    ranges = [Range(m["topic"], int(m["partition"]), int(m["start"]), int(m["end"])) for m in found if m is not None]
    return sorted(ranges, key=lambda each: (each.topic, each.partition, each.start))
