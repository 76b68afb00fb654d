"""Spark's context: what Headrace needs of it, and what the user adds."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from pyspark import SparkConf, SparkContext

from headrace.errors import ConfigError
from headrace.kafka.java import Java, find_java
from headrace.spark.jvm import has_jvm
from headrace.spark.launch import launch_jvm
from headrace.spark.masters import MASTER, is_local

_SPARK = "spark."
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""What spark-submit leaves in the environment of the process it starts."""
_PYTHON = "PYSPARK_PYTHON"
_LOCAL_ADDRESS = "SPARK_LOCAL_IP"
"""Where Spark's JVM listens."""
_AUTHENTICATE = "spark.authenticate"
_SECRET = "spark.authenticate.secret"
_OPTIONS = ("maxoffsetspertrigger", "failondataloss")
"""Settings of batches, under the names that Spark's Kafka source has for them."""


def planned_master(settings: Mapping[str, Any], threads: int | None = None) -> str | None:
    """The master that a new context will have; None where spark-submit has started this process with one of its own."""
    if MASTER in settings:
        return str(settings[MASTER])
    return None if _SUBMITTED in os.environ else f"local[{threads or '*'}]"


def workers_python(settings: Mapping[str, Any]) -> str:
    """The Python that Spark's workers run."""
    return os.environ.get(_PYTHON, str(settings.get("spark.pyspark.python", sys.executable)))


def make_context(
    application_id: str, *, threads: int | None = None, settings: Mapping[str, Any], java: Java | None = None
) -> SparkContext:
    """The running context, or a new one; `settings` override Headrace's defaults."""
    os.environ["JAVA_HOME"] = str((java or find_java()).path.resolve().parent.parent)
    os.environ.setdefault(_PYTHON, workers_python(settings))
    master = planned_master(settings, threads)
    ours = {
        "spark.app.name": application_id,
        # The JVM schedules jobs and passes large pieces of bytes on: too little to win back the time that its second
        # compiler would take from the workers, and not what its default collector is made for. Its first compiler is
        # quick: what a job calls once is compiled after some jobs, not after 200.
        "spark.driver.extraJavaOptions": (
            "-XX:TieredStopAtLevel=1 -XX:CompileThresholdScaling=0.03 -XX:+UseParallelGC"
        ),
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
    if master is not None:
        ours |= {MASTER: master, **security(master, settings)}
    if master is not None and is_local(master):
        # Nobody else has to reach its ports. Settings alone would leave Spark's UI open.
        os.environ.setdefault(_LOCAL_ADDRESS, "127.0.0.1")
        # What is shuffled stays on this machine, which has Headrace.
        ours |= {
            "spark.shuffle.compress": "false",
            "spark.shuffle.checksum.enabled": "false",
            "spark.python.daemon.module": "headrace.spark.daemon",
        }
    all_settings = {name: str(value) for name, value in {**ours, **settings}.items() if name.startswith(_SPARK)}
    conf = SparkConf().setAll(list(all_settings.items()))
    if not has_jvm() and _SUBMITTED not in os.environ:
        context = SparkContext(conf=conf, gateway=launch_jvm(all_settings))
    else:
        context = SparkContext.getOrCreate(conf)
    # Spark ignores a level that its log has already: a first one that differs has the next one heard.
    context.setLogLevel("ERROR")
    return context


def security(master: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Has Spark's ports ask who connects: what is broadcast there has the passwords of Kafka.

    ConfigError on a standalone cluster without a secret: there, Spark cannot make one itself.
    """
    ours = {_AUTHENTICATE: "true"}
    if not is_local(master):
        ours["spark.network.crypto.enabled"] = "true"
    is_on = str(settings.get(_AUTHENTICATE, "true")).lower() == "true"
    if master.startswith("spark://") and is_on and _SECRET not in settings:
        raise ConfigError(
            f"Whoever reaches the ports of Spark's driver and executors on {master} could read Kafka's passwords. Give "
            f"the cluster's {_SECRET} among the spark settings; its masters and workers need it too, with "
            f"{_AUTHENTICATE} true. In a network that you trust, set {_AUTHENTICATE} to false."
        )
    return ours


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
