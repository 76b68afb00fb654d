"""The Spark session: what Headrace needs of it, and what the user adds."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from headrace.kafka.jars import SPARK_KAFKA, resolve
from headrace.kafka.java import find_java
from headrace.spark.masters import MASTER, is_local

_LOCAL_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_SPARK = "spark."
_JARS = "spark.jars"


def make_session(
    application_id: str,
    *,
    threads: int | None = None,
    checkpoint: str,
    settings: Mapping[str, Any],
) -> SparkSession:
    """A session with Kafka's connector; `settings` of the user's go before Headrace's own."""
    os.environ["JAVA_HOME"] = str(find_java().path.resolve().parent.parent)
    os.environ.setdefault("PYSPARK_PYTHON", str(settings.get("spark.pyspark.python", sys.executable)))
    ours = {
        MASTER: f"local[{threads or '*'}]",
        "spark.app.name": application_id,
        _JARS: ",".join(str(jar) for jar in resolve(SPARK_KAFKA)),
        # The JVM plans batches and passes large pieces of bytes on: too little to win back the time that its second
        # compiler would take from the workers, and not what its default collector is made for.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        # Below the largest number Spark measures the batch anew for every row, which costs more than all the rest.
        "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.scheduler.mode": "FIFO",
        "spark.locality.wait": "0",
    }
    if is_local(str(settings.get(MASTER, ours[MASTER]))):
        # What is shuffled stays on this machine.
        ours |= {"spark.shuffle.compress": "false", "spark.shuffle.checksum.enabled": "false"}
    if "://" not in checkpoint or checkpoint.startswith("file:"):
        ours["spark.sql.streaming.checkpointFileManagerClass"] = _LOCAL_FILES
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        del ours[MASTER]  # spark-submit has started this process, with a master of its own
    if settings.get(_JARS):
        settings = {**settings, _JARS: f"{ours[_JARS]},{settings[_JARS]}"}
    builder = SparkSession.builder
    for name, value in {**ours, **settings}.items():
        if name.startswith(_SPARK):
            builder = builder.config(name, str(value))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def source_options(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings that are options of Spark's Kafka source, such as maxOffsetsPerTrigger: those not of the session."""
    return {name: str(value) for name, value in settings.items() if not name.startswith(_SPARK)}
