"""What Headrace does behind PySpark's back: this is the only file that uses what PySpark does not promise.

It collects RDDs at half of what PySpark's `collect` costs, and mends a leak of Spark's.

Most of what an empty job takes in the JVM is not scheduling. Spark's `collect` reads the bytecode of its own largest
classes each time, to clean a closure, and PySpark finds Java classes by trying every package that it has imported.
`JavaRDD.collectAsync` cleans a closure of a small class, and a class that was found once need not be found again.
"""

from __future__ import annotations

import contextlib
import os
from itertools import chain
from typing import Any, TypeVar

from pyspark import RDD, SparkContext
from pyspark.util import _load_from_socket

from headrace.errors import WorkerLost

T = TypeVar("T")

_CLASSES = ("PythonRDD", "PythonUtils", "SimplePythonFunction", "PairwiseRDD", "PythonPartitioner")
"""Java classes that PySpark asks for by name whenever an RDD is made."""
_CONVERTERS = "scala.jdk.javaapi.CollectionConverters"


def has_context() -> bool:
    """Whether this process has a context already, which is the user's own."""
    return SparkContext._active_spark_context is not None


def has_jvm() -> bool:
    """Whether this process has a JVM already, with or without a context."""
    return SparkContext._gateway is not None


def forget(context: SparkContext | None) -> None:
    """Lets go of a context whose JVM has died, or that was never made: a new one gets a JVM of its own."""
    with contextlib.suppress(Exception):
        if context is not None:
            context.stop()
    with contextlib.suppress(Exception):
        SparkContext._gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None


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


def names_deleted_on_exit(context: SparkContext) -> list[str]:
    """The files that the JVM is to delete when it ends."""
    _, names = _deleted_on_exit(context)
    return names


def forget_deleted_files(context: SparkContext) -> None:
    """Has the JVM forget the files it is to delete on exit that are gone already.

    Spark registers the socket of each result, and Java keeps what was registered for ever: with 20 batches a second,
    some hundred megabytes a day. A JVM that does not let itself be told keeps them.
    """
    with contextlib.suppress(Exception):
        field, names = _deleted_on_exit(context)
        jvm: Any = context._jvm
        left = jvm.java.util.LinkedHashSet()
        for name in names:
            if os.path.lexists(name):
                left.add(name)
        # A new set, as other threads of the JVM may add to the one that is there.
        field.set(None, left)


def _deleted_on_exit(context: SparkContext) -> tuple[Any, list[str]]:
    jvm: Any = context._jvm
    field = jvm.java.lang.Class.forName("java.io.DeleteOnExitHook").getDeclaredField("files")
    field.setAccessible(True)
    names: str = jvm.java.lang.String.join("\n", field.get(None))
    return field, names.splitlines()


def collect(rdd: RDD[T]) -> list[T]:
    """What the RDD has, as its own `collect` gives it; `remember_classes` has to come first.

    WorkerLost where it did not arrive whole: PySpark takes a connection that breaks for the end of the result.
    """
    made: Any = rdd
    jvm: Any = rdd.context._jvm
    found = made._jrdd.collectAsync().get()
    count, serializer = found.size(), made._jrdd_deserializer.serializer
    # Through py4j, an answer of more than 8 KB would wait for a delayed acknowledgement: 40 ms.
    elements = vars(jvm)[_CONVERTERS].asScala(found.iterator())
    with _load_from_socket(jvm.PythonRDD.serveIterator(elements, "headrace-results"), serializer) as stream:
        pieces = list(stream)
    if len(pieces) != count:
        raise WorkerLost(f"Spark sent {len(pieces)} of {count} pieces of a result, and then no more")
    return list(chain.from_iterable(pieces))
