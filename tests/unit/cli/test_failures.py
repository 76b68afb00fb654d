from __future__ import annotations

from headrace.cli.failures import explain
from headrace.errors import ConfigError

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
