"""Spark's Kafka connector, for the hand-written PySpark."""

from __future__ import annotations

from benchmarks.contenders.kafka_streams_side import HASHES
from headrace.kafka.jars import Jar, JarSet

# Listed one by one: the connector asks for a token provider of its own version, which is in no repository, and what
# else it and the client depend on is among pyspark's jars.
SPARK_KAFKA = JarSet(
    "spark-kafka",
    (
        Jar("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0", transitive=False),
        Jar("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.1.0-preview1", transitive=False),
        Jar("org.apache.kafka", "kafka-clients", "3.9.2", transitive=False),
        Jar("org.apache.commons", "commons-pool2", "2.13.1", transitive=False),
    ),
    HASHES,
)
