"""Hand-written PySpark as a process of its own: the workloads in Structured Streaming, from Kafka to Kafka.

It reads and writes with Spark's own connector, never through Python. Its guarantee is at least once: the connector's
sink has no transactions.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.contenders.spark_connector import SPARK_KAFKA
from benchmarks.orders import PARTITIONS
from headrace.kafka.jars import resolve
from headrace.kafka.java import find_java

BATCH_RECORDS = 400_000

_ORDER = (
    "orderId string, locationId string, finalAmount double, orderType string, "
    "orderLineItems array<struct<item: string, count: int, amount: double>>, orderedDateTime string"
)
_STORE = "city string, region string"
_PAYMENT = "orderId string, method string, amount double"


class Job:
    """A session, and the topics of the workload."""

    def __init__(self, options: argparse.Namespace) -> None:
        os.environ["JAVA_HOME"] = str(find_java().path.resolve().parent.parent)
        self.options = options
        self.session = (
            SparkSession.builder.master("local[*]")
            .appName(options.application_id)
            .config("spark.jars", ",".join(str(jar) for jar in resolve(SPARK_KAFKA)))
            .config("spark.sql.shuffle.partitions", str(PARTITIONS))
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.ui.enabled", "false")
            .getOrCreate()
        )

    def stream(self, number: int, schema: str) -> DataFrame:
        """A topic as a stream: key, timestamp, and the fields of the JSON."""
        limit = self.options.batch_records or BATCH_RECORDS
        reader = self.session.readStream.format("kafka").option("maxOffsetsPerTrigger", limit)
        return self._fields(reader.options(**self._source(number)).load(), schema)

    def table(self, number: int, schema: str) -> DataFrame:
        """A topic as it is now."""
        return self._fields(self.session.read.format("kafka").options(**self._source(number)).load(), schema)

    def run(self, rows: DataFrame, key: Column, value: Column, mode: str) -> None:
        """Writes the rows to the output until the process is killed."""
        written = rows.select(key.alias("key"), f.to_json(value).alias("value"))
        query = (
            written.writeStream.format("kafka")
            .outputMode(mode)
            .option("kafka.bootstrap.servers", self.options.servers)
            .option("topic", self.options.output)
            .option("checkpointLocation", self.options.checkpoint)
            .start()
        )
        query.awaitTermination()

    def _source(self, number: int) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.options.servers,
            "subscribe": self.options.sources[number],
            "startingOffsets": "earliest",
        }

    def _fields(self, rows: DataFrame, schema: str) -> DataFrame:
        parsed = f.from_json(f.col("value").cast("string"), schema).alias("value")
        return rows.select(f.col("key").cast("string"), "timestamp", parsed).select("key", "timestamp", "value.*")


def stateless(job: Job) -> None:
    """The revenue of each order of the general kind."""
    rows = job.stream(0, _ORDER).where(f.col("orderType") == "GENERAL")
    value = f.struct("locationId", "finalAmount", f.size("orderLineItems").alias("items"))
    job.run(rows, f.col("key"), value, "append")


def totals(job: Job) -> None:
    """The running count and revenue of each key."""
    rows = job.stream(0, _ORDER).groupBy("key").agg(*_total())
    job.run(rows, f.col("key"), f.struct("count", "revenue"), "update")


def windows(job: Job) -> None:
    """The count and revenue of each location in windows of 15 seconds, under Kafka Streams' windowed keys."""
    rows = (
        job.stream(0, _ORDER)
        .withWatermark("timestamp", "1 day")
        .groupBy(f.window("timestamp", "15 seconds").alias("window"), "locationId")
        .agg(*_total())
    )
    start = f.unhex(f.lpad(f.hex(f.unix_millis(f.col("window.start"))), 16, "0"))
    job.run(rows, f.concat(f.encode("locationId", "UTF-8"), start), f.struct("count", "revenue"), "update")


def table_join(job: Job) -> None:
    """Each order with the city and region of its store, as the stores are at the start: a snapshot, not a table."""
    stores = f.broadcast(job.table(1, _STORE).drop("timestamp").cache())
    rows = job.stream(0, _ORDER).join(stores, "key")
    job.run(rows, f.col("key"), f.struct("orderId", "finalAmount", "city", "region"), "append")


def stream_join(job: Job) -> None:
    """Each order with its payment, if that is within five seconds."""
    orders = job.stream(0, _ORDER).withWatermark("timestamp", "1 minute").alias("o")
    payments = job.stream(1, _PAYMENT).withWatermark("timestamp", "1 minute").alias("p")
    within = "p.timestamp BETWEEN o.timestamp - INTERVAL 5 SECONDS AND o.timestamp + INTERVAL 5 SECONDS"
    rows = orders.join(payments, f.expr(f"o.key = p.key AND {within}"))
    job.run(rows, f.col("o.key"), f.struct("locationId", "finalAmount", "method", "amount"), "append")


def _total() -> tuple[Column, Column]:
    return f.count("*").alias("count"), f.sum("finalAmount").alias("revenue")


WORKLOADS: dict[str, Callable[[Job], None]] = {
    "stateless": stateless,
    "totals": totals,
    "windows": windows,
    "table-join": table_join,
    "stream-join": stream_join,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sources", required=True, nargs="+")
    for name in ("--topology", "--output", "--servers", "--application-id", "--checkpoint"):
        parser.add_argument(name, required=True)
    parser.add_argument("--batch-records", type=int)
    options = parser.parse_args()
    WORKLOADS[options.topology](Job(options))


if __name__ == "__main__":
    main()
