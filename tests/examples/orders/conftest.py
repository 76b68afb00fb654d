from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from examples.orders import router, topology
from examples.orders.demo import demo
from examples.orders.pipeline import ORDERS
from headrace import Streams
from headrace.cli.dashboard import dashboard
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec, fixed_sinks
from headrace.serving.config import ServingConfig
from tests.examples.orders.sales import SALES, sale
from tests.serving.stage import Stage, wait_until

_PATIENCE_SECONDS = 300.0


@pytest.fixture(scope="session")
def stage(embedded_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    topics = Topics(ClientSettings(embedded_kafka.bootstrap_servers))
    topics.create([TopicSpec(name, 3) for name in fixed_sinks(topology())], exist_ok=True)
    stage = Stage(topology(), embedded_kafka.bootstrap_servers, tmp_path_factory.mktemp("orders"))
    # By location, as the task of a partition of the stage works on all that comes of its records.
    stage.pipe(ORDERS, [(each[0], sale(*each), 0) for each in SALES])
    yield stage
    stage.close()


@pytest.fixture(scope="session")
def clients(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[httpx.Client]]:
    """One for each of the instances, which share the partitions."""
    with (
        instance(stage, str(tmp_path_factory.mktemp("first"))) as first,
        instance(stage, str(tmp_path_factory.mktemp("second"))) as second,
    ):
        clients = [httpx.Client(base_url=f"http://{each.address}", timeout=60) for each in (first, second)]
        wait_until(lambda: all(is_settled(client) for client in clients), "both instances are ready", _PATIENCE_SECONDS)
        yield clients
        for client in clients:
            client.close()


def instance(stage: Stage, directory: str) -> Streams:
    routers = [router, dashboard(demo.title, demo.stores)]
    config = replace(stage.config, state_dir=directory)
    return Streams(topology(), config, serving=ServingConfig(), routers=routers, leads=False)


def is_settled(client: httpx.Client) -> bool:
    found = client.get("/v1/instances").json()["instances"]
    owned = [each["partitions"] for each in found]
    return (
        len(owned) == 2
        and all(owned)
        and client.get("/readyz").status_code == 200
        and client.get("/v1/orders/windows/revenue").status_code == 200
    )
