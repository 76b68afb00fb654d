from __future__ import annotations

import errno
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.errors import ConfigError, DiskFull, KafkaAway, ProcessingFailed, WorkerLost
from headrace.spark.failures import cause_of, explain

FROM_SPARK = """[STREAM_FAILED] Query [id = 1] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An error
py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/headrace/spark/query.py", line 84, in run
    table = self._compute(frame, number)
pyspark.errors.exceptions.captured.PythonException:
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/headrace/task/task.py", line 10, in process
{cause}: the node SOURCE met ValueError: no. SQLSTATE: 39000 SQLSTATE: XXKST
go on with LogAndContinue
 SQLSTATE: 39000
=== Streaming Query ===
Identifier: fails
"""


def test_an_error_of_headrace_is_its_message() -> None:
    assert explain(ConfigError("no application_id")) == "no application_id"


def test_an_error_of_headrace_below_another_is_its_message() -> None:
    error = RuntimeError("the query failed")
    error.__cause__ = ConfigError("no application_id")

    assert explain(error) == "no application_id"


def test_what_came_through_spark_is_the_message_of_its_cause() -> None:
    told = "the node SOURCE met ValueError: no.\ngo on with LogAndContinue"

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
        RuntimeError(
            "[STREAM_FAILED] …\norg.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node"
        ),
        RuntimeError("org.apache.kafka.common.KafkaException: No resolvable bootstrap urls given in bootstrap.servers"),
        RuntimeError("java.util.concurrent.TimeoutException: Cannot fetch record for offset 7 in 15000 milliseconds"),
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
        "[STREAM_FAILED] Query\n=== Streaming Query ===\njava.lang.IllegalStateException: no\n\tat a.b"
    )

    assert explain(error) == "IllegalStateException: no"
