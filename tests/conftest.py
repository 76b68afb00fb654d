from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from py4j.java_gateway import JavaGateway, JVMView

from tests.oracle.gateway import kafka_streams_gateway

if TYPE_CHECKING:
    from pyspark import SparkContext


@pytest.fixture(scope="session")
def gateway() -> Iterator[JavaGateway]:
    """A JVM with Kafka Streams, started with the first test that asks for it."""
    with kafka_streams_gateway() as gateway:
        yield gateway


@pytest.fixture(scope="session")
def jvm(gateway: JavaGateway) -> JVMView:
    """The classes of that JVM: `jvm.org.apache.kafka.streams.StreamsBuilder()`."""
    return gateway.jvm


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkContext]:
    """One Spark context for all tests: applications that find one use it."""
    from headrace.spark.session import make_context

    context = make_context("headrace-tests", threads=2, settings={})
    yield context
    context.stop()
