"""What Headrace uses of PySpark that PySpark does not promise: a new version may change it."""

from __future__ import annotations

import os

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from headrace.spark.jvm import collect, forget_deleted_files, names_deleted_on_exit, remember_classes


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


def test_the_jvm_does_not_remember_the_socket_of_each_result(spark: SparkContext) -> None:
    remember_classes(spark)
    for _ in range(20):
        collect(spark.parallelize([1], 1))
    assert len(names_deleted_on_exit(spark)) >= 20, "Spark no longer has sockets deleted on exit: see spark/jvm.py"
    forget_deleted_files(spark)
    assert all(os.path.lexists(name) for name in names_deleted_on_exit(spark))
    assert collect(spark.parallelize([1], 1)) == [1]
