from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headrace.spark.session import make_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for all tests: applications that find one use it."""
    directory = tmp_path_factory.mktemp("spark")
    session = make_session("headrace-tests", threads=2, checkpoint=str(directory), settings={})
    yield session
    session.stop()
