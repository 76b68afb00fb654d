"""Executors that cannot run what is shipped to them."""

from __future__ import annotations

import sys

import pytest
from pyspark import SparkContext

from headrace.errors import EnvironmentFailed
from headrace.spark.shipping import NEEDED, check_executors


def test_what_executors_lack_is_named(spark: SparkContext) -> None:
    check_executors(spark, NEEDED)
    with pytest.raises(EnvironmentFailed, match=rf": {sys.executable} has no nowhere_a, nowhere_b\nInstall it there"):
        check_executors(spark, ("lmdb", "nowhere_a", "nowhere_b"))


def test_a_python_that_is_not_there(spark: SparkContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "pythonExec", "/nowhere/python")
    with pytest.raises(EnvironmentFailed, match=r"/nowhere/python.*spark\.pyspark\.python says where it is"):
        check_executors(spark)
