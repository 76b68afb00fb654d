"""What Headrace uses of PySpark that PySpark does not promise: a new version may change it."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from headrace.spark.jvm import collect, remember_classes


def test_an_rdd_is_collected_as_pyspark_does(spark: SparkContext) -> None:
    remember_classes(spark)
    rdd = spark.parallelize(range(1_000), 3).map(lambda number: (number, b"x" * number))
    assert collect(rdd) == rdd.collect(), "this version of PySpark collects in another way: see spark/jvm.py"


def test_an_empty_rdd_has_nothing(spark: SparkContext) -> None:
    remember_classes(spark)
    assert collect(spark.parallelize([], 2)) == []


def test_a_job_that_fails_says_why(spark: SparkContext) -> None:
    remember_classes(spark)
    with pytest.raises(Py4JJavaError, match="by zero"):
        collect(spark.parallelize([0], 1).map(lambda number: 1 // number))
