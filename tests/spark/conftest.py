from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import SparkContext

from headrace.spark.session import make_context


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkContext]:
    """One Spark context for all tests: applications that find one use it."""
    context = make_context("headrace-tests", threads=2, settings={})
    yield context
    context.stop()
