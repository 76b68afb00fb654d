"""The dashboard over HTTP: the page, and all that it asks for."""

from __future__ import annotations

import json
import re

import httpx

from examples.orders.demo import demo
from examples.orders.generator import SHOPS
from examples.orders.models import Store
from examples.orders.pipeline import STORES
from tests.serving.stage import Stage


def test_the_page_is_whole_by_itself(clients: list[httpx.Client]) -> None:
    page = clients[0].get("/dashboard")

    assert page.status_code == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert not re.search(r"(src|href)=\"?(https?:)?//|https?://|@import", page.text)
    assert "connect-src 'self'" in page.headers["Content-Security-Policy"]


def test_it_begins_with_stores_that_there_are(clients: list[httpx.Client]) -> None:
    settings = clients[0].get("/dashboard/settings").json()
    names = {each["name"] for each in clients[0].get("/v1/stores").json()["stores"]}

    assert settings == {"title": demo.title, "stores": list(demo.stores)}
    assert len(demo.stores) == 4
    assert names.issuperset(demo.stores)


def test_it_gets_what_it_shows_of_instances(clients: list[httpx.Client]) -> None:
    for each in clients[0].get("/v1/instances").json()["instances"]:
        assert {"address", "state", "leader", "partitions", "lag"} <= each.keys()


def test_it_gets_the_windows_of_a_store(clients: list[httpx.Client]) -> None:
    page = clients[0].get("/v1/stores/general_orders_revenue_windows/windows?limit=1000&from=0").json()

    assert page["complete"]
    assert {"key", "value", "window"} <= page["entries"][0].keys()


def test_it_gets_the_entries_of_a_store_and_what_changes_after_them(clients: list[httpx.Client], stage: Stage) -> None:
    page = clients[0].get(f"/v1/stores/{STORES}/keys?limit=1000").json()
    assert page["complete"]

    location, address = next(iter(SHOPS.items()))
    changes = f"/v1/stores/{STORES}/changes"
    with clients[0].stream("GET", changes, params={"position": page["position"]}) as response:
        stage.pipe(STORES, [(location, Store(location, address, "555-0100"), 1)])
        lines = response.iter_lines()
        assert "event: change" in lines
        name, _, data = next(lines).partition(": ")

    change = json.loads(data)
    assert name == "data"
    assert change["key"] == location
    assert change["value"]["address"]["city"] == address.city
