"""A JVM with Kafka Streams and its test driver on the class path, reached through py4j."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from headrace.kafka.jars import ORACLE, resolve
from headrace.kafka.java import find_java


@contextmanager
def kafka_streams_gateway() -> Iterator[JavaGateway]:
    """A gateway to a new JVM that can call back into Python; the JVM ends with the context.

    A callback runs on the Python thread that called Java, and what it calls runs on the Java thread that called back.
    So code that holds a Java lock can be entered again, as when a punctuator schedules another one.
    """
    # What the JVM prints is dropped: slf4j has no binding here and only says so.
    port, process = launch_gateway(
        classpath=os.pathsep.join(str(jar) for jar in resolve(ORACLE)),
        jarpath=str(_py4j_jar()),
        java_path=str(find_java().path),
        javaopts=["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
        die_on_exit=True,
        return_proc=True,
    )
    launcher = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        server = launcher.jvm.py4j.ClientServer.ClientServerBuilder().javaPort(0).build()
        server.startServer()
        gateway = ClientServer(
            JavaParameters(port=server.getJavaServer().getListeningPort(), auto_convert=True),
            PythonParameters(port=0, daemonize=True, daemonize_connections=True),
        )
        try:
            yield gateway
        finally:
            gateway.shutdown()
    finally:
        launcher.shutdown()
        # With --die-on-broken-pipe the JVM also leaves when its standard input closes.
        process.stdin.close()
        process.wait(timeout=30)


def _py4j_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    places = (spec.submodule_search_locations or ()) if spec else ()
    return next(jar for place in places for jar in Path(place, "jars").glob("py4j-*.jar"))
