"""Every kind of query, over REST and in Python, on any instance: the answers are what the tasks' own stores say."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace import ValueAndTimestamp, Window, Windowed
from headrace.client import AsyncClient, Client
from headrace.serdes.hashing import partition_for_key
from headrace.serving.config import ServingConfig
from tests.serving.conftest import CLICKERS, Fixed, MakeStage
from tests.serving.shop import ABSENT, BASE, KEYS, MINUTE, Place
from tests.serving.stage import Running, Stage, by_partition, pages, wait_until


def text_of(name: str, key: Any) -> str:
    """A key as it stands in an address."""
    if name in ("json", "custom"):
        return json.dumps(key)
    if name == "typed":
        return json.dumps({"city": key.city, "number": key.number})
    if name == "bytes":
        return base64.b64encode(key).decode()
    return json.dumps(key) if isinstance(key, bool) else str(key)


def plain_of(name: str, key: Any) -> Any:
    """A key as a client in Python is given it."""
    return {"city": key.city, "number": key.number} if isinstance(key, Place) else key


@pytest.mark.parametrize("name", KEYS)
def test_a_key_of_each_serde(app: Fixed, http: httpx.Client, name: str) -> None:
    for index, key in enumerate(KEYS[name][1]):
        for running in app.running:
            url = f"{running.url}/v1/stores/by_{name}/keys/{quote(text_of(name, key), safe='').replace('.', '%2E')}"
            response = http.get(url)
            assert response.status_code == 200, (key, response.text)
            assert response.json()["value"] == {"of": index, "ä": None}
            assert response.json()["timestamp"] == 1 + index
            assert running.store(f"by_{name}").get(key) == {"of": index, "ä": None}
    if name in ABSENT:
        url = f"{app.any.url}/v1/stores/by_{name}/keys/{quote(text_of(name, ABSENT[name]), safe='')}"
        response = http.get(url)
        assert response.status_code == 404
        assert response.json()["title"] == "No such key"
        assert app.any.store(f"by_{name}").get(ABSENT[name]) is None


@pytest.mark.parametrize(
    "path",
    [
        "clicks/keys/user1",
        "clicks/keys/z%2F1",
        "clicks/keys/%C3%A4",
        "clicks/keys/none",
        "clicks/keys/",
        "by_long/keys/42",
        "by_long/keys/x",
        "by_string/keys/a%0Ab",
        "minutes/keys/user1",
        "prices/keys/tea",
        "places/keys/p1",
        "none/keys/user1",
        "..%252f/keys/user1",
    ],
)
def test_a_key_is_answered_alike_with_and_without_parameters(app: Fixed, http: httpx.Client, path: str) -> None:
    """Without any, it takes a shorter way."""
    for running in app.running:
        plain, other = (http.get(f"{running.url}/v1/stores/{path}{end}") for end in ("", "?timeout_ms=60000"))
        assert plain.status_code == other.status_code
        assert plain.headers["content-type"] == other.headers["content-type"]
        assert {**plain.json(), "staleness_ms": 0} == {**other.json(), "staleness_ms": 0}


@pytest.mark.parametrize("name", KEYS)
def test_the_python_clients_take_keys_of_each_serde(app: Fixed, name: str) -> None:
    keys = KEYS[name][1]

    async def ask() -> list[Any]:
        async with AsyncClient([each.address for each in app.running]) as client:
            store = client.store(f"by_{name}")
            found = [await store.get(plain_of(name, key)) for key in keys]
            many = await store.get_many([plain_of(name, key) for key in keys])
            assert sorted(entry.value["of"] for entry in many) == list(range(len(keys)))
            assert len([entry async for entry in store.all()]) == len(keys)
            assert await store.count() == len(keys)
            return found

    expected = [{"of": index, "ä": None} for index in range(len(keys))]
    with Client(app.any.url) as client:
        store = client.store(f"by_{name}")
        assert [store.get(plain_of(name, key)) for key in keys] == expected
        many = store.get_many([plain_of(name, key) for key in keys])
        assert sorted(entry.value["of"] for entry in many) == list(range(len(keys)))
        assert sorted(entry.value["of"] for entry in store.all()) == list(range(len(keys)))
        if name in ABSENT:
            assert store.get(plain_of(name, ABSENT[name])) is None
    assert asyncio.run(ask()) == expected


@pytest.mark.parametrize(
    ("store", "key"),
    [
        ("by_long", "x"),
        ("by_long", "1.5"),
        ("by_long", "1_0"),
        ("by_long", " 1"),
        ("by_long", str(2**63)),
        ("by_long", "9" * 5000),
        ("by_integer", str(2**31)),
        ("by_double", "x"),
        ("by_double", "1_0"),
        ("by_uuid", "1234"),
        ("by_boolean", "yes"),
        ("by_bytes", "!"),
        ("by_json", "{"),
        ("by_json", "null"),
        ("by_typed", '{"city": 1}'),
        ("by_custom", "5"),
        ("by_custom", '{"city": "x"}'),
    ],
)
def test_a_wrong_key_is_told_what_would_be_right(app: Fixed, http: httpx.Client, store: str, key: str) -> None:
    response = http.get(f"{app.any.url}/v1/stores/{store}/keys/{quote(key, safe='')}")
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"].endswith("is needed")
    assert len(response.content) < 500


@pytest.mark.parametrize(
    ("store", "keys"), [("by_string", [None]), ("by_string", [5]), ("by_long", ["x"]), ("by_long", [1.5])]
)
def test_wrong_keys_among_many(app: Fixed, http: httpx.Client, store: str, keys: list[Any]) -> None:
    assert http.post(f"{app.any.url}/v1/stores/{store}/keys", json={"keys": keys}).status_code == 400


def test_many_keys(app: Fixed, http: httpx.Client) -> None:
    response = http.post(f"{app.any.url}/v1/stores/clicks/keys", json={"keys": [*CLICKERS, "nobody", "nobody"]})
    assert response.status_code == 200
    expected = dict(app.truth("clicks", lambda store: store.all()))
    assert {entry["key"]: entry["value"] for entry in response.json()["entries"]} == expected
    assert response.json()["absent"] == ["nobody"]
    assert app.any.store("clicks").get_many([*CLICKERS, "nobody"]) == expected
    assert http.post(f"{app.any.url}/v1/stores/clicks/keys", json={"keys": ["k"] * 1001}).status_code == 400


def test_many_long_keys_are_forwarded(app: Fixed, http: httpx.Client) -> None:
    keys = [f"{number:04}" + "x" * 990 for number in range(1000)]
    response = http.post(f"{app.any.url}/v1/stores/clicks/keys", json={"keys": keys})
    assert response.status_code == 200
    assert response.json()["absent"] == keys


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    low=st.none() | st.sampled_from([*CLICKERS, "a", "user", "zz"]),
    high=st.none() | st.sampled_from([*CLICKERS, "a", "user3", "zz"]),
    limit=st.integers(1, 50),
    data=st.data(),
)
def test_ranges(app: Fixed, http: httpx.Client, low: str | None, high: str | None, limit: int, data: Any) -> None:
    running = data.draw(st.sampled_from(app.running))
    expected = sorted(app.truth("clicks", lambda store: store.range(low, high)), key=lambda entry: entry[0].encode())
    ends = {name: value for name, value in (("from", low), ("to", high)) if value is not None}
    found = pages(http, f"{running.url}/v1/stores/clicks/keys", limit=limit, **ends)
    assert [(entry["key"], entry["value"]) for entry in found] == expected
    assert list(running.store("clicks").range(low, high)) == expected


@pytest.mark.parametrize("prefix", ["", "user1", "ä", "nobody", "user39x"])
def test_prefixes(app: Fixed, http: httpx.Client, prefix: str) -> None:
    expected = sorted(app.truth("clicks", lambda store: store.prefix(prefix)), key=lambda entry: entry[0].encode())
    found = pages(http, f"{app.any.url}/v1/stores/clicks/keys", limit=3, prefix=prefix)
    assert [(entry["key"], entry["value"]) for entry in found] == expected
    assert list(app.any.store("clicks").prefix(prefix)) == expected
    with Client(app.any.address) as client:
        assert [(entry.key, entry.value) for entry in client.store("clicks").prefix(prefix)] == expected


def test_counts(app: Fixed, http: httpx.Client) -> None:
    for store, read in (
        ("clicks", lambda store: store.all()),
        ("minutes", lambda store: store.all()),
        ("visits", lambda store: store.all()),
    ):
        count = len(app.truth(store, read))
        assert http.get(f"{app.any.url}/v1/stores/{store}/count").json()["count"] == count
        assert app.any.store(store).approximate_count() == count


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    key=st.sampled_from([*CLICKERS, "nobody"]),
    from_ms=st.integers(BASE - MINUTE, BASE + 61 * MINUTE),
    length=st.integers(0, 61 * MINUTE),
    limit=st.integers(1, 20),
    data=st.data(),
)
def test_windows_and_sessions_of_a_key(
    app: Fixed, http: httpx.Client, key: str, from_ms: int, length: int, limit: int, data: Any
) -> None:
    running = data.draw(st.sampled_from(app.running))
    to_ms = from_ms + length
    windows = app.truth("minutes", lambda store: store.fetch(key, from_ms, to_ms))
    span = {"from": from_ms, "to": to_ms, "limit": limit}
    found = pages(http, f"{running.url}/v1/stores/minutes/windows/{quote(key, safe='')}", **span)
    assert [(entry["window"]["start"], entry["value"]) for entry in found] == windows
    assert all(entry["window"]["end"] == entry["window"]["start"] + MINUTE for entry in found)
    assert running.store("minutes").fetch(key, from_ms, to_ms) == windows
    sessions = app.truth("visits", lambda store: store.find_sessions(key, from_ms, to_ms))
    found = pages(http, f"{running.url}/v1/stores/visits/sessions/{quote(key, safe='')}", **span)
    shown = [(Windowed(entry["key"], Window(**entry["window"])), entry["value"]) for entry in found]
    assert shown == sessions
    assert running.store("visits").fetch(key, from_ms, to_ms) == sessions


def in_order(entries: list[tuple[Windowed[str], Any]]) -> list[tuple[Windowed[str], Any]]:
    return sorted(entries, key=lambda entry: (entry[0].key, entry[0].window.start))


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    from_ms=st.integers(BASE - MINUTE, BASE + 61 * MINUTE),
    length=st.integers(0, 61 * MINUTE),
    limit=st.integers(10, 200),
)
def test_windows_and_sessions_of_all_keys(
    app: Fixed, http: httpx.Client, from_ms: int, length: int, limit: int
) -> None:
    to_ms = from_ms + length
    span = {"from": from_ms, "to": to_ms, "limit": limit}
    windows = in_order(app.truth("minutes", lambda store: store.fetch_all(from_ms, to_ms)))
    found = pages(http, f"{app.any.url}/v1/stores/minutes/windows", **span)
    assert in_order([(Windowed(each["key"], Window(**each["window"])), each["value"]) for each in found]) == windows
    assert in_order(list(app.any.store("minutes").fetch_all(from_ms, to_ms))) == windows
    sessions = in_order(
        [
            entry
            for entry in app.truth("visits", lambda store: store.all())
            if entry[0].window.end >= from_ms and entry[0].window.start <= to_ms
        ]
    )
    found = pages(http, f"{app.any.url}/v1/stores/visits/sessions", **span)
    assert in_order([(Windowed(each["key"], Window(**each["window"])), each["value"]) for each in found]) == sessions
    with Client(app.any.url) as client:
        listed = client.store("visits").sessions(from_ms=from_ms, to_ms=to_ms)
        assert in_order([(Windowed(each.key, Window(*(each.window or ()))), each.value) for each in listed]) == sessions


def test_times_as_dates(app: Fixed, http: httpx.Client) -> None:
    first, last = BASE + 10 * MINUTE, BASE + 20 * MINUTE
    dates = [datetime.fromtimestamp(each / 1000, timezone.utc).isoformat() for each in (first, last)]
    span = {"from": dates[0].replace("+00:00", "Z"), "to": dates[1], "limit": 1000}
    found = pages(http, f"{app.any.url}/v1/stores/minutes/windows", **span)
    assert len(found) == len(app.truth("minutes", lambda store: store.fetch_all(first, last)))
    response = http.get(f"{app.any.url}/v1/stores/minutes/windows", params={"from": "yesterday"})
    assert response.status_code == 400
    assert "ISO 8601" in response.json()["detail"]


def test_versions(app: Fixed, http: httpx.Client) -> None:
    store = app.any.store("prices")
    assert store.get("tea") == ValueAndTimestamp(2.5, BASE + 5000)
    assert store.get("jam") is None
    with Client(app.any.url) as client:
        for key in ("tea", "jam", "none"):
            for after in (-1, 9, 10, 999, 1000, 2999, 3000, 4000, 4999, 5000, MINUTE):
                as_of = BASE + after
                found = [driver.store("prices").get(key, as_of) for driver in app.stage.drivers]
                expected = next((each for each in found if each is not None), None)
                assert store.get(key, as_of) == expected
                entry = client.store("prices").entry(key, as_of=as_of)
                assert (None if entry is None else ValueAndTimestamp(entry.value, entry.timestamp)) == expected
    response = http.get(f"{app.any.url}/v1/stores/clicks/keys/user1", params={"as_of": 5})
    assert response.status_code == 400


def test_global_tables_are_whole_on_every_instance(app: Fixed, http: httpx.Client) -> None:
    expected = {f"p{number}": {"n": number} for number in range(20)}
    for running in app.running:
        store = running.store("places")
        assert {key: store.get(key) for key in expected} == expected
        assert store.get_many(expected) == expected
        assert dict(store.all()) == expected
        assert http.get(f"{running.url}/v1/stores/places/keys/p3").json()["value"] == {"n": 3}
        assert http.get(f"{running.url}/v1/stores/places/keys/none").status_code == 404
        assert running.service.metadata_for_key("places", "p3").port == running.server.port


def test_stores_are_described(app: Fixed, http: httpx.Client) -> None:
    stores = {store["name"]: store for store in http.get(f"{app.any.url}/v1/stores").json()["stores"]}
    assert {"clicks", "minutes", "visits", "prices", "places", "by_json"} <= stores.keys()
    assert stores["minutes"]["window_size_ms"] == MINUTE
    assert stores["places"]["global"] and not stores["clicks"]["global"]
    assert stores["clicks"]["key_form"] == "text" and stores["by_custom"]["key_form"] == "json"
    assert http.get(f"{app.any.url}/v1/stores/clicks").json() == stores["clicks"]


@pytest.mark.parametrize(
    "path",
    [
        "clicks/windows",
        "clicks/windows/a",
        "clicks/sessions",
        "clicks/sessions/a",
        "minutes/keys",
        "minutes/keys/a",
        "minutes/sessions",
        "visits/windows",
        "visits/windows/a",
        "visits/keys/a",
        "prices/keys",
        "by_long/keys?prefix=1",
        "clicks/keys?prefix=a&from=b",
        "clicks/keys?cursor=*",
        "minutes/windows/a?cursor=AAAA",
        "clicks/keys?limit=10001",
        "clicks/keys?limit=0",
        "clicks/keys/a?min_position=x",
        "clicks/keys/a?min_position=9:1",
        "clicks/keys/a?max_staleness_ms=-1",
        "clicks/keys/a?timeout_ms=0",
    ],
)
def test_what_a_store_cannot_be_asked(app: Fixed, http: httpx.Client, path: str) -> None:
    response = http.get(f"{app.any.url}/v1/stores/{path}")
    assert response.status_code == 400, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert set(response.json()) >= {"type", "title", "status", "detail"}


def test_an_answer_has_no_end_of_bytes(app: Fixed, http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in app.running:
        monkeypatch.setattr(each.service.reader, "most_bytes", 40)
    expected = sorted(app.truth("clicks", lambda store: store.all()), key=lambda entry: entry[0].encode())
    first = http.get(f"{app.any.url}/v1/stores/clicks/keys", params={"limit": 1000}).json()
    assert len(first["entries"]) < len(expected) and first["next"] is not None
    found = pages(http, f"{app.any.url}/v1/stores/clicks/keys", limit=1000)
    assert [(entry["key"], entry["value"]) for entry in found] == expected
    windows = app.truth("minutes", lambda store: store.all())
    assert len(pages(http, f"{app.any.url}/v1/stores/minutes/windows", limit=1000)) == len(windows)


def test_what_a_serde_cannot_read_is_shown_as_it_is(app: Fixed, http: httpx.Client) -> None:
    partition = partition_for_key(b'"odd"', app.stage.partitions)
    copies = [each.instance.copy("odd", partition) for each in app.running]
    wanted = max(copy.position for copy in copies if copy is not None) + 1
    app.stage.write("odd", partition, [(b'"odd"', b"not {json", 1)])
    url = f"{app.any.url}/v1/stores/odd/keys/%22odd%22"
    response = http.get(url, params={"min_position": f"{partition}:{wanted}", "timeout_ms": 60_000})
    assert response.status_code == 200
    assert response.json()["value"] is None
    assert base64.b64decode(response.json()["unreadable"]) == b"not {json"


LONG_KEYS = sorted(f"{'x' * 2000}{number:05}{'y' * 20_000}" for number in range(120))


@pytest.fixture
def long_keys(counting: MakeStage) -> tuple[Stage, list[Running]]:
    """Two instances with keys of 22 KB, which all begin alike, and small answers."""
    stage = counting()
    for partition, keys in by_partition(stage, LONG_KEYS).items():
        stage.write("n", partition, [(key.encode(), (1).to_bytes(8, "big"), 1) for key in keys])
    running = [stage.start(ServingConfig(max_answer_bytes=200_000)) for _ in range(2)]
    stage.settle(running)
    return stage, running


def test_an_answer_has_one_budget_for_all_partitions(
    long_keys: tuple[Stage, list[Running]], http: httpx.Client
) -> None:
    """Each partition had a budget of its own."""
    _, running = long_keys
    for each in running:
        response = http.get(f"{each.url}/v1/stores/n/keys", params={"limit": 1000})
        assert 100_000 < len(response.content) < 300_000
        assert len(response.json()["next"]) < 2000


def test_pages_go_on_after_keys_of_any_length(long_keys: tuple[Stage, list[Running]], http: httpx.Client) -> None:
    """A cursor had the whole key, and no more than 4 KB."""
    _, running = long_keys
    for each in running:
        found = pages(http, f"{each.url}/v1/stores/n/keys", limit=7)
        assert [entry["key"] for entry in found] == LONG_KEYS
    with Client(running[0].url) as client:
        assert [entry.key for entry in client.store("n").all()] == LONG_KEYS


def test_pages_lose_nothing_where_the_last_long_key_is_deleted(
    long_keys: tuple[Stage, list[Running]], http: httpx.Client
) -> None:
    stage, (running, _) = long_keys
    url = f"{running.url}/v1/stores/n/keys"
    page = http.get(url, params={"limit": 7}).json()
    last = page["entries"][-1]["key"]
    stage.write("n", partition_for_key(last.encode(), stage.partitions), [(last.encode(), None, 2)])
    wait_until(lambda: http.get(url, params={"from": last, "to": last}).json()["entries"] == [], "it is deleted")
    rest = pages(http, url, limit=7, cursor=page["next"])
    assert {entry["key"] for entry in rest} >= set(LONG_KEYS[7:])
    assert last not in {entry["key"] for entry in rest}
