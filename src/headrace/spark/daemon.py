"""The process that Spark's Python workers are forked from: they begin with all that tasks need imported."""

from __future__ import annotations

from pyspark.daemon import manager

import headrace.spark.task_run  # noqa: F401

if __name__ == "__main__":
    manager()
