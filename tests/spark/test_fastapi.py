"""A user's own FastAPI application starts and stops the streams, and asks their stores in its handlers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from pyspark import SparkContext

from headrace import Streams
from headrace.errors import ConfigError
from headrace.fastapi import AsyncStore, handle_errors, lifespan, store
from headrace.kafka.embedded import EmbeddedKafka
from tests.instances.processes import free_ports
from tests.spark.lab import Lab, await_that

Counts = Annotated[AsyncStore, store("counts")]


@pytest.fixture
def lab(embedded_kafka: EmbeddedKafka, spark: SparkContext, tmp_path: Path) -> Lab:
    return Lab(embedded_kafka.bootstrap_servers, tmp_path)


@contextmanager
def serving(app: FastAPI, port: int) -> Iterator[httpx.Client]:
    """The application behind a server, from its start to its end."""
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        await_that(lambda: server.started or not thread.is_alive(), "the server does not start")
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(60)


def test_streams_live_as_long_as_the_application(lab: Lab) -> None:
    lab.create_topics()
    (port,) = free_ports(1)
    streams = Streams(lab.topology(store="counts"), lab.config(application_server=f"127.0.0.1:{port}"))
    app = FastAPI(lifespan=lifespan(streams))
    handle_errors(app)

    @app.get("/counted/{key}")
    async def counted(key: str, counts: Counts) -> int:
        return await counts.get(key) or 0

    @app.get("/unknown")
    async def unknown(counts: Annotated[AsyncStore, store("none")]) -> None:
        raise AssertionError("there is no such store")

    with serving(app, port) as client:
        assert streams.state == "RUNNING"
        await_that(lambda: client.get("/readyz").status_code == 200, "it is not ready")
        assert client.get("/counted/k").json() == 0
        lab.send("a", "b", "c")
        await_that(lambda: client.get("/counted/k").json() == 3, "the records are not counted")
        # Headrace's own endpoints are there as well, for other instances and for everybody.
        assert client.get("/v1/stores/counts/keys/k").json()["value"] == 3
        (listed,) = client.get("/v1/instances").json()["instances"]
        assert listed["address"] == f"127.0.0.1:{port}" and listed["leader"] is True
        response = client.get("/unknown")
        assert response.status_code == 404
        assert response.headers["content-type"] == "application/problem+json"
        assert "counts" in response.json()["detail"]
    assert streams.state == "NOT_RUNNING"
    assert lab.written() == ["A", "B", "C"]


def test_without_an_address_it_does_not_start(lab: Lab) -> None:
    streams = Streams(lab.topology(), lab.config())
    with pytest.raises(ConfigError, match="application_server is needed"):
        streams.start_within(FastAPI())
