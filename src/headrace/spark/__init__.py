"""Runs topologies on Spark Structured Streaming: the only place that imports pyspark."""
