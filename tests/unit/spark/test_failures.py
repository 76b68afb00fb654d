from __future__ import annotations

import errno
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.errors import ConfigError, DiskFull, KafkaAway, ProcessingFailed, WorkerLost
from headrace.spark.failures import cause_of, explain

FROM_SPARK = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/pyspark/worker.py", line 3610, in process
    out_iter = func(split_index, iterator)
               ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/headrace/task/task.py", line 10, in process
{cause}: the node SOURCE met ValueError: no
  record: topic orders, partition 0, offset 7
go on with LogAndContinue
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:665)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""  # noqa: E501


def test_an_error_of_headrace_is_its_message() -> None:
    assert explain(ConfigError("no application_id")) == "no application_id"


def test_an_error_of_headrace_below_another_is_its_message() -> None:
    error = RuntimeError("the batch failed")
    error.__cause__ = ConfigError("no application_id")

    assert explain(error) == "no application_id"


def test_what_came_through_spark_is_the_message_of_its_cause() -> None:
    told = (
        "the node SOURCE met ValueError: no\n  record: topic orders, partition 0, offset 7\ngo on with LogAndContinue"
    )

    assert explain(RuntimeError(FROM_SPARK.format(cause="headrace.errors.ProcessingFailed"))) == told
    assert explain(RuntimeError(FROM_SPARK.format(cause="shop.PriceError"))) == f"PriceError: {told}"


def test_anything_else_is_its_first_line() -> None:
    assert explain(OSError("disk full\nsecond line")) == "OSError: disk full"
    assert explain(RuntimeError()) == "RuntimeError: "


def test_an_error_of_a_worker_is_of_its_own_kind_again(tmp_path: Path) -> None:
    error = RuntimeError(FROM_SPARK.format(cause="headrace.errors.ProcessingFailed"))

    cause = cause_of(error, tmp_path)

    assert type(cause) is ProcessingFailed
    assert cause.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN)),
        KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE)),
        KafkaException(KafkaError(KafkaError.UNKNOWN_LEADER_EPOCH)),
    ],
    ids=str,
)
def test_a_kafka_that_does_not_answer_is_told_apart(error: Exception, tmp_path: Path) -> None:
    assert isinstance(cause_of(error, tmp_path), KafkaAway)


@pytest.mark.parametrize(
    "error",
    [
        KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)),
        RuntimeError(FROM_SPARK.format(cause="shop.TimeoutError")),
        ValueError("no"),
    ],
    ids=str,
)
def test_other_errors_stay_what_they_are(error: Exception, tmp_path: Path) -> None:
    assert cause_of(error, tmp_path) is error


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        RuntimeError("java.io.IOException: No space left on device\n\tat java.base/java.io.FileOutputStream"),
        RuntimeError("lmdb.DiskError: mdb_txn_commit: No space left on device"),
    ],
    ids=str,
)
def test_a_full_disk_is_told_apart(error: Exception, tmp_path: Path) -> None:
    cause = cause_of(error, tmp_path)

    assert isinstance(cause, DiskFull)
    assert str(cause).startswith(f"The disk is full: the state directory {tmp_path} has")


def test_a_worker_that_died_is_told_apart(tmp_path: Path) -> None:
    died = "Lost task 0.0: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"

    assert isinstance(cause_of(RuntimeError(died), tmp_path), WorkerLost)


def test_what_only_java_knows_is_told_in_a_line() -> None:
    error = RuntimeError(
        "An error occurred while calling o7.runJob.\n: org.apache.spark.SparkException: Job aborted\n\tat a.b\n"
        "Caused by: java.lang.IllegalStateException: no\n\tat a.b"
    )

    assert explain(error) == "IllegalStateException: no"
