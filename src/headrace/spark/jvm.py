"""Collects RDDs at half of what PySpark's `collect` costs: the only file that uses what PySpark does not promise.

Most of what an empty job takes in the JVM is not scheduling. Spark's `collect` reads the bytecode of its own largest
classes each time, to clean a closure, and PySpark finds Java classes by trying every package that it has imported.
`JavaRDD.collectAsync` cleans a closure of a small class, and a class that was found once need not be found again.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pyspark import RDD, SparkContext
from pyspark.util import _load_from_socket

T = TypeVar("T")

_CLASSES = ("PythonRDD", "PythonUtils", "SimplePythonFunction", "PairwiseRDD", "PythonPartitioner")
"""Java classes that PySpark asks for by name whenever an RDD is made."""
_CONVERTERS = "scala.jdk.javaapi.CollectionConverters"


def remember_classes(context: SparkContext) -> None:
    """Has PySpark find the classes that a job needs once, not with every job."""
    jvm: Any = context._jvm
    for name in _CLASSES:
        vars(jvm).setdefault(name, getattr(jvm, name))
    if _CONVERTERS not in vars(jvm):
        found = jvm
        for part in _CONVERTERS.split("."):
            found = getattr(found, part)
        vars(jvm)[_CONVERTERS] = found


def collect(rdd: RDD[T]) -> list[T]:
    """What the RDD has, as its own `collect` gives it; `remember_classes` has to come first."""
    made: Any = rdd
    jvm: Any = rdd.context._jvm
    found = made._jrdd.collectAsync().get()
    elements = vars(jvm)[_CONVERTERS].asScala(found.iterator())
    served = jvm.PythonRDD.serveIterator(elements, "headrace-results")
    with _load_from_socket(served, made._jrdd_deserializer) as stream:
        return list(stream)
