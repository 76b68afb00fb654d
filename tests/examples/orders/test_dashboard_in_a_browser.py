"""The dashboard as a browser shows it: a Chromium that is installed, without a window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from examples.orders.demo import demo
from examples.orders.generator import SHOPS
from examples.orders.models import Store
from examples.orders.pipeline import STORES
from tests.serving.stage import Stage, wait_until

pytestmark = pytest.mark.acceptance

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        pytest.fail(f"A browser is needed, one of {', '.join(_BROWSERS)} on the PATH (Debian: apt install chromium).")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, clients: list[httpx.Client]) -> Iterator[Page]:
    """The dashboard; what the browser complains of fails the test."""
    complaints: list[str] = []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(_PATIENCE_MS)
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{clients[0].base_url}/dashboard")
    yield page
    page.close()
    assert not [each for each in complaints if "favicon" not in each]


def panel(page: Page, store: str) -> list[list[str]]:
    """The cells of a store's table, when there are some."""
    section = page.locator("section").filter(has=page.locator(f"option:checked:text-is('{store}')"))
    section.locator("td").first.wait_for()
    return [row.locator("td").all_inner_texts() for row in section.locator("tr").all()[1:]]


def test_it_shows_the_stores_it_begins_with(page: Page) -> None:
    expect(page).to_have_title(demo.title)

    assert page.locator("section select").evaluate_all("all => all.map(each => each.value)") == list(demo.stores)
    assert panel(page, "general_orders_revenue") == [["store_1234", "3", "15.30"], ["store_4567", "1", "1.00"]]
    windows = panel(page, "general_orders_revenue_windows")
    assert [row[1:] for row in windows] == [
        ["store_1234", "1", "5.00"],
        ["store_1234", "2", "10.30"],
        ["store_4567", "1", "1.00"],
    ]


def test_it_shows_the_instances(page: Page, clients: list[httpx.Client]) -> None:
    addresses = {f"{client.base_url.host}:{client.base_url.port}" for client in clients}
    instances = page.locator("#instances tr")
    expect(instances).to_have_count(3, timeout=_PATIENCE_MS)

    rows = [row.locator("td").all_inner_texts() for row in instances.all()[1:]]
    assert {row[0] for row in rows} == addresses
    assert {row[1] for row in rows} == {"RUNNING"}


@pytest.mark.parametrize("width", [800, 1280, 1920])
def test_nothing_is_cut_off(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    for store in demo.stores:
        panel(page, store)

    hidden = "all => all.filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)"
    assert page.locator("body, section").evaluate_all(hidden) == []


def test_a_change_appears_by_itself(page: Page, stage: Stage) -> None:
    first = page.locator("section select").first
    first.select_option(STORES)
    first.locator("xpath=..").get_by_text("Nothing yet.").or_(page.get_by_text("Portland")).first.wait_for()
    # The page follows the store from here on.
    location, address = next(iter(SHOPS.items()))
    stage.pipe(STORES, [(location, Store(location, address, "555-0199"), 1)])

    expect(page.locator("#changes")).to_contain_text("contact num 555-0199", timeout=_PATIENCE_MS)
    assert panel(page, STORES) == [[location, address.address_line1, "", "Portland", "OR", "97201", "555-0199"]]


def test_a_page_that_nobody_looks_at_holds_no_connections(page: Page) -> None:
    """A browser opens six to an address; two pages would need eight."""
    panel(page, "general_orders_revenue")
    look = "hidden => {Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
    look += "document.dispatchEvent(new Event('visibilitychange'));"
    look += "return panels.map(each => each.events.readyState);}"

    assert page.evaluate(look, True) == [2] * len(demo.stores)  # EventSource.CLOSED
    page.evaluate(look, False)
    is_open = "() => panels.every(each => each.events.readyState === EventSource.OPEN)"
    wait_until(lambda: page.evaluate(is_open), "all panels follow their stores again")
