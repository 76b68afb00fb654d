"""The orders application on a real Kafka, with two instances as users start them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from examples.orders.generator import make_order
from examples.orders.models import Order, OrderType
from examples.orders.pipeline import GENERAL, RESTAURANT, number, order_json, text
from headrace.kafka.embedded import EmbeddedKafka
from headrace.serving.peers import HttpPeers
from headrace.serving.queries import SCAN, Query
from tests.examples.orders.test_orders import BAD_ORDERS
from tests.instances.processes import Process, free_ports, wait_until

pytestmark = pytest.mark.acceptance

NAMES = {OrderType.GENERAL: GENERAL, OrderType.RESTAURANT: RESTAURANT}
ORDERS = 60
PEER_TOKEN = "of-these-instances"
_PATIENCE_SECONDS = 500.0

Counts = dict[str, int]


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Process]]:
    """Two instances, each with partitions of its own."""
    monkeypatch.setenv("HEADRACE_PEER_TOKEN", PEER_TOKEN)
    state_dir = tmp_path / "state"
    with EmbeddedKafka(state_dir, port=0), ExitStack() as stack:
        processes = [Process(port, tmp_path) for port in free_ports(2)]
        for process in processes:
            stack.callback(process.clean_up)
            process.start(
                *("-m", "headrace", "run", "examples.orders:topology", "--create-topics"),
                *("--state-dir", str(state_dir), "--port", str(process.port), "--log-file", str(process.log)),
            )
        wait_until(lambda: all(each.is_ready for each in processes), "both are ready", _PATIENCE_SECONDS)
        wait_until(lambda: all(shares(each) for each in processes), "both have partitions", _PATIENCE_SECONDS)
        yield processes


def shares(process: Process) -> dict[str, dict[str, list[int]]]:
    """By instance, the partitions of the stores, as the instance knows them; nothing as long as one has none."""
    answer = process.ask("/v1/instances")
    found = answer.json()["instances"] if answer is not None and answer.status_code == 200 else []
    owned = {each["address"]: each["partitions"] for each in found if each["state"] == "RUNNING"}
    return owned if len(owned) == 2 and all(owned.values()) else {}


def put(process: Process, order: Order) -> None:
    response = process.client.post("/v1/orders", content=order_json.serialize(order))
    assert response.status_code == 202, response.text


def asked_of(process: Process, name: str) -> tuple[Counts, Decimal, int]:
    """What the instance answers with: counts by location, the sum of the revenue, and of the counts in windows."""
    counts = {each["locationId"]: each["orderCount"] for each in listed(process, f"/v1/orders/count/{name}")}
    revenues = listed(process, f"/v1/orders/revenue/{name}")
    windows = listed(process, f"/v1/orders/windows/count/{name}")
    revenue = sum((Decimal(each["runningRevenue"]) for each in revenues), Decimal(0))
    return counts, revenue, sum(each["orderCount"] for each in windows)


def listed(process: Process, path: str) -> list[dict[str, Any]]:
    """What is listed; nothing as long as a partition has nobody to answer for it."""
    answer = process.ask(path)
    return answer.json() if answer is not None and answer.status_code == 200 else []


def local(process: Process, name: str) -> Counts:
    """By location, the count that the instance itself has, as another one asks for it."""
    store = f"{name}_count"
    partitions = tuple(shares(process)[process.address].get(store, ()))
    if not partitions:
        return {}
    asked = Query(kind=SCAN, store=store, partitions=partitions)
    answer = asyncio.run(HttpPeers("orders", PEER_TOKEN.encode()).ask(process.address, asked, 60))
    assert not answer.refused
    return {str(text.deserialize(row.key)): int(number.deserialize(row.value) or 0) for row in answer.rows}


def test_counts_of_any_instance_are_the_sum_over_both(processes: list[Process]) -> None:
    random = Random(1)
    orders = [make_order(random, each, lambda: datetime.now(timezone.utc)) for each in range(ORDERS)]
    for each, order in enumerate(orders):
        put(processes[each % 2], order)
    for bad, _ in BAD_ORDERS.values():
        content = {"content": bad} if isinstance(bad, bytes) else {"json": bad}
        assert processes[0].client.post("/v1/orders", **content).status_code == 400

    for kind, name in NAMES.items():
        mine = [order for order in orders if order.order_type is kind]
        counts = dict(Counter(order.location_id for order in mine))
        expected = counts, sum((order.final_amount for order in mine), Decimal(0)), len(mine)
        for process in processes:
            await_answers(process, name, expected)
        parts = [local(process, name) for process in processes]
        assert not parts[0].keys() & parts[1].keys()
        assert parts[0] | parts[1] == counts


def await_answers(process: Process, name: str, expected: tuple[Counts, Decimal, int]) -> None:
    """Waits until the instance answers as expected; one that counted too much never will."""
    wait_until(lambda: asked_of(process, name) == expected, f"{process} answers {expected}", _PATIENCE_SECONDS)
