"""The Spark session: what Headrace needs of it, and what the user adds."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.kafka.jars import SPARK_KAFKA, resolve
from headrace.kafka.java import find_java

_LOCAL_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def make_session(
    application_id: str,
    *,
    threads: int | None = None,
    checkpoint: str,
    settings: Mapping[str, Any],
) -> SparkSession:
    """A session with Kafka's connector; `settings` of the user's go before Headrace's own."""
    os.environ.setdefault("JAVA_HOME", str(Path(find_java().path).resolve().parent.parent))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    ours = {
        "spark.master": f"local[{threads or '*'}]",
        "spark.app.name": application_id,
        "spark.jars": ",".join(str(jar) for jar in resolve(SPARK_KAFKA)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.scheduler.mode": "FIFO",
        "spark.locality.wait": "0",
    }
    if "://" not in checkpoint or checkpoint.startswith("file:"):
        ours["spark.sql.streaming.checkpointFileManagerClass"] = _LOCAL_FILES
    builder = SparkSession.builder
    for name, value in {**ours, **settings}.items():
        builder = builder.config(name, str(value))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
