"""Runs topologies on Spark: the only place that imports pyspark."""
