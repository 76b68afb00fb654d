"""Executors that cannot run what is shipped to them."""

from __future__ import annotations

import sys

import pytest
from pyspark.sql import SparkSession

from headrace.errors import EnvironmentFailed
from headrace.spark.shipping import NEEDED, check_executors


def test_what_executors_lack_is_named(spark: SparkSession) -> None:
    check_executors(spark, NEEDED)
    with pytest.raises(EnvironmentFailed, match=rf": {sys.executable} has no nowhere_a, nowhere_b\nInstall it there"):
        check_executors(spark, ("lmdb", "nowhere_a", "nowhere_b"))


def test_a_python_that_is_not_there(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
    with pytest.raises(EnvironmentFailed, match=r"/nowhere/python.*spark\.pyspark\.python says where it is"):
        check_executors(spark)
