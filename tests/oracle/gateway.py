"""A JVM with Kafka Streams and its test driver on the class path, reached through py4j."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway, launch_gateway

from headrace.kafka.jars import ORACLE, resolve
from headrace.kafka.java import find_java


@contextmanager
def kafka_streams_gateway() -> Iterator[JavaGateway]:
    """A gateway to a new JVM that can call back into Python; the JVM ends with the context."""
    # What the JVM prints is dropped: slf4j has no binding here and only says so.
    port, process = launch_gateway(
        classpath=os.pathsep.join(str(jar) for jar in resolve(ORACLE)),
        jarpath=str(_py4j_jar()),
        java_path=str(find_java().path),
        javaopts=["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
        die_on_exit=True,
        return_proc=True,
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auto_convert=True),
        callback_server_parameters=CallbackServerParameters(port=0, daemonize=True, daemonize_connections=True),
    )
    try:
        server = gateway.java_gateway_server
        address = server.getCallbackClient().getAddress()
        server.resetCallbackClient(address, gateway.get_callback_server().get_listening_port())
        yield gateway
    finally:
        gateway.shutdown()
        # With --die-on-broken-pipe the JVM also leaves when its standard input closes.
        process.stdin.close()
        process.wait(timeout=30)


def _py4j_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    places = (spec.submodule_search_locations or ()) if spec else ()
    return next(jar for place in places for jar in Path(place, "jars").glob("py4j-*.jar"))
