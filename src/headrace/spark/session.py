"""Spark's context: what Headrace needs of it, and what the user adds."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from pyspark import SparkConf, SparkContext

from headrace.errors import ConfigError
from headrace.kafka.java import find_java
from headrace.spark.masters import MASTER, is_local

_SPARK = "spark."
_OPTIONS = ("maxoffsetspertrigger", "failondataloss")
"""Settings of batches, under the names that Spark's Kafka source has for them."""


def make_context(application_id: str, *, threads: int | None = None, settings: Mapping[str, Any]) -> SparkContext:
    """The running context, or a new one; `settings` override Headrace's defaults."""
    os.environ["JAVA_HOME"] = str(find_java().path.resolve().parent.parent)
    os.environ.setdefault("PYSPARK_PYTHON", str(settings.get("spark.pyspark.python", sys.executable)))
    ours = {
        MASTER: f"local[{threads or '*'}]",
        "spark.app.name": application_id,
        # The JVM schedules jobs and passes large pieces of bytes on: too little to win back the time that its second
        # compiler would take from the workers, and not what its default collector is made for.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.scheduler.mode": "FIFO",
        "spark.locality.wait": "0",
        # What a task gives is megabytes: it goes to the driver in one message, not by way of the block manager.
        "spark.task.maxDirectResultSize": "100m",
        # A stage of which a part is repeated would mix two attempts at a batch: the whole batch is repeated instead.
        "spark.stage.maxConsecutiveAttempts": "1",
        # The work of a batch travels with its function. As a broadcast of PySpark's, each would leave a file behind.
        "spark.broadcast.UDFCompressionThreshold": "1g",
    }
    if is_local(str(settings.get(MASTER, ours[MASTER]))):
        # What is shuffled stays on this machine, which has Headrace.
        ours |= {
            "spark.shuffle.compress": "false",
            "spark.shuffle.checksum.enabled": "false",
            "spark.python.daemon.module": "headrace.spark.daemon",
        }
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        del ours[MASTER]  # spark-submit has started this process, with a master of its own
    conf = SparkConf()
    for name, value in {**ours, **settings}.items():
        if name.startswith(_SPARK):
            conf.set(name, str(value))
    context = SparkContext.getOrCreate(conf)
    # Spark ignores a level that its log has already: a first one that differs has the next one heard.
    context.setLogLevel("ERROR")
    return context


def check_options(settings: Mapping[str, Any]) -> None:
    """Raises ConfigError for a setting that is neither Spark's nor one of a batch."""
    for name in settings:
        if not name.startswith(_SPARK) and name.lower() not in _OPTIONS:
            raise ConfigError(
                f"spark setting {name!r} is not known: Spark's own begin with spark., and a batch takes "
                "maxOffsetsPerTrigger and failOnDataLoss"
            )


def skips_lost(settings: Mapping[str, Any]) -> bool:
    """Whether records that Kafka has deleted before they were read are done without."""
    given = {name.lower(): str(value).lower() for name, value in settings.items()}
    return given.get("failondataloss") == "false"
