"""The REST endpoints of the orders application, on two instances."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from examples.orders.pipeline import ORDERS, order_json
from tests.examples.orders.sales import at
from tests.examples.orders.test_orders import BAD_ORDERS, order
from tests.serving.stage import Stage
from tests.spark.running import read_all


def ask(clients: list[httpx.Client], path: str) -> Any:
    """What both instances answer alike; lists in the order of their content."""
    answers = []
    for client in clients:
        response = client.get(path)
        assert response.status_code == 200, response.text
        answers.append(response.json())
    assert answers[0] == answers[1]
    return sorted(answers[0], key=json.dumps) if isinstance(answers[0], list) else answers[0]


def test_orders_are_counted_by_location(clients: list[httpx.Client]) -> None:
    assert ask(clients, "/v1/orders/count/general_orders") == [
        {"locationId": "store_1234", "orderCount": 3},
        {"locationId": "store_4567", "orderCount": 1},
    ]
    assert ask(clients, "/v1/orders/count/restaurant_orders?location_id=store_1234") == {
        "locationId": "store_1234",
        "orderCount": 1,
    }


def test_orders_of_all_types_are_counted(clients: list[httpx.Client]) -> None:
    assert ask(clients, "/v1/orders/count") == [
        {"locationId": "store_1234", "orderType": "GENERAL", "orderCount": 3},
        {"locationId": "store_1234", "orderType": "RESTAURANT", "orderCount": 1},
        {"locationId": "store_4567", "orderType": "GENERAL", "orderCount": 1},
        {"locationId": "store_7890", "orderType": "RESTAURANT", "orderCount": 1},
    ]


def test_revenue_is_exact(clients: list[httpx.Client]) -> None:
    portland = {"locationId": "store_1234", "runningOrderCount": 3, "runningRevenue": "15.30"}
    assert ask(clients, "/v1/orders/revenue/general_orders") == [
        portland,
        {"locationId": "store_4567", "runningOrderCount": 1, "runningRevenue": "1.00"},
    ]
    assert ask(clients, "/v1/orders/revenue/general_orders?location_id=store_1234") == portland


def test_revenue_of_all_types(clients: list[httpx.Client]) -> None:
    found = ask(clients, "/v1/orders/revenue")

    assert {(each["locationId"], each["orderType"]): each["runningRevenue"] for each in found} == {
        ("store_1234", "GENERAL"): "15.30",
        ("store_1234", "RESTAURANT"): "7.77",
        ("store_4567", "GENERAL"): "1.00",
        ("store_7890", "RESTAURANT"): "99.99",
    }


def window(location: str, seconds: int, **content: Any) -> dict[str, Any]:
    return {"locationId": location, "startWindow": at(seconds), "endWindow": at(seconds + 15), **content}


def test_orders_are_counted_in_windows(clients: list[httpx.Client]) -> None:
    assert by_start(ask(clients, "/v1/orders/windows/count/general_orders")) == [
        window("store_1234", 0, orderCount=2),
        window("store_4567", 0, orderCount=1),
        window("store_1234", 15, orderCount=1),
    ]
    assert by_start(ask(clients, "/v1/orders/windows/count/general_orders?location_id=store_1234")) == [
        window("store_1234", 0, orderCount=2),
        window("store_1234", 15, orderCount=1),
    ]


def by_start(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda each: (each["startWindow"], each["locationId"], each.get("orderType", "")))


def test_windows_of_all_types_between_two_times(clients: list[httpx.Client]) -> None:
    assert by_start(ask(clients, f"/v1/orders/windows/count?from={at(15)}&to={at(30)}")) == [
        window("store_1234", 15, orderType="GENERAL", orderCount=1),
        window("store_7890", 30, orderType="RESTAURANT", orderCount=1),
    ]
    assert ask(clients, f"/v1/orders/windows/count?from={at(16)}&to={at(29)}") == []
    assert len(ask(clients, f"/v1/orders/windows/count?to={at(0)}")) == 3


def test_revenue_in_windows(clients: list[httpx.Client]) -> None:
    first = window("store_1234", 0, runningOrderCount=2, runningRevenue="10.30")
    assert first in ask(clients, "/v1/orders/windows/revenue/general_orders")
    assert ask(clients, f"/v1/orders/windows/revenue/general_orders?location_id=store_1234&to={at(0)}") == [first]
    assert by_start(ask(clients, f"/v1/orders/windows/revenue?from={at(15)}")) == [
        window("store_1234", 15, orderType="GENERAL", runningOrderCount=1, runningRevenue="5.00"),
        window("store_7890", 30, orderType="RESTAURANT", runningOrderCount=1, runningRevenue="99.99"),
    ]


@pytest.mark.parametrize("path", ["count", "revenue", "windows/count", "windows/revenue"])
def test_an_unknown_type_is_refused_with_those_there_are(clients: list[httpx.Client], path: str) -> None:
    response = clients[0].get(f"/v1/orders/{path}/wholesale_orders")

    assert response.status_code == 400
    assert "'general_orders' or 'restaurant_orders'" in response.json()["detail"]


@pytest.mark.parametrize("path", ["count", "revenue"])
def test_a_location_without_orders_is_not_found(clients: list[httpx.Client], path: str) -> None:
    response = clients[0].get(f"/v1/orders/{path}/restaurant_orders?location_id=store_4567")

    assert response.status_code == 404
    assert response.json()["detail"] == "There are no restaurant_orders of location store_4567."


@pytest.mark.parametrize(
    ("query", "wrong"),
    [("from=yesterday", "query.from"), (f"from={at(15)}&to={at(0)}", "`from` is after `to`."), ("to=", "query.to")],
)
def test_times_that_are_none_are_refused(clients: list[httpx.Client], query: str, wrong: str) -> None:
    response = clients[0].get(f"/v1/orders/windows/count?{query}")

    assert response.status_code == 400
    assert wrong in response.json()["detail"]


def test_an_order_that_is_put_in_is_in_the_topic(clients: list[httpx.Client], stage: Stage) -> None:
    given = {**order("12.50"), "orderId": 77}
    response = clients[1].post("/v1/orders", json=given)

    assert response.status_code == 202, response.text
    assert response.json() == given
    written = {key: value for key, value, *_ in read_all(stage.settings, ORDERS)}
    assert order_json.deserialize(written[b"77"]) == order_json.deserialize(json.dumps(given).encode())


@pytest.mark.parametrize(("bad", "message"), BAD_ORDERS.values(), ids=BAD_ORDERS.keys())
def test_a_bad_order_is_refused_and_goes_nowhere(
    clients: list[httpx.Client], stage: Stage, bad: Any, message: str
) -> None:
    before = len(read_all(stage.settings, ORDERS))
    response = clients[0].post("/v1/orders", content=bad if isinstance(bad, bytes) else json.dumps(bad))

    assert response.status_code == 400
    assert message in response.json()["detail"]
    assert len(read_all(stage.settings, ORDERS)) == before


def test_an_order_of_the_future_is_refused(clients: list[httpx.Client], stage: Stage) -> None:
    before = len(read_all(stage.settings, ORDERS))
    response = clients[0].post("/v1/orders", json={**order(), "orderedDateTime": "9999-12-31T23:59:59Z"})

    assert response.status_code == 400
    assert "of the future" in response.json()["detail"]
    assert len(read_all(stage.settings, ORDERS)) == before


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"\xff\xfe", b"[" * 100_000], ids=range(5))
def test_what_is_no_order_at_all_is_refused(clients: list[httpx.Client], body: bytes) -> None:
    response = clients[0].post("/v1/orders", content=body)

    assert response.status_code == 400
    assert response.json()["detail"].startswith("This is no order: ")


def test_the_endpoints_are_described(clients: list[httpx.Client]) -> None:
    described = clients[0].get("/openapi.json").json()["paths"]

    assert {path for path in described if path.startswith("/v1/orders")} == {
        "/v1/orders",
        *(f"/v1/orders/{what}" for what in ("count", "revenue", "windows/count", "windows/revenue")),
        *(f"/v1/orders/{what}/{{order_type}}" for what in ("count", "revenue", "windows/count", "windows/revenue")),
    }
