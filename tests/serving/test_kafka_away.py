"""Kafka is away for long: an instance says so, answers from what it has and how old that is, and catches up."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.kafka.embedded import EmbeddedKafka
from tests.serving.shop import counter
from tests.serving.stage import Running, Stage, wait_until
from tests.serving.test_routing import KEYS, feed


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """A broker that nobody else uses."""
    with EmbeddedKafka(tmp_path / "kafka", port=0) as kafka:
        yield kafka


@pytest.fixture
def stage(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(counter(f"in-{uuid.uuid4().hex[:8]}"), kafka.bootstrap_servers, tmp_path)
    yield stage
    stage.close()


def tell_broker(kafka: EmbeddedKafka, number: signal.Signals) -> None:
    assert kafka.endpoint is not None and kafka.endpoint.broker is not None
    os.kill(kafka.endpoint.broker, number)


def has(http: httpx.Client, running: Running, key: str, value: int) -> bool:
    return bool(http.get(f"{running.url}/v1/stores/n/keys/{key}").json().get("value") == value)


def ask(http: httpx.Client, running: Running, key: str) -> dict[str, Any]:
    response = http.get(f"{running.url}/v1/stores/n/keys/{key}", params={"timeout_ms": 20_000})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    assert answer["value"] == 1 + int(key[3:])
    return answer


def troubles(http: httpx.Client, running: Running) -> set[str | None]:
    return {each["trouble"] for each in http.get(f"{running.url}/v1/instances").json()["instances"]}


def test_a_long_absence(
    stage: Stage, kafka: EmbeddedKafka, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    linger = 1.0
    monkeypatch.setattr("headrace.serving.instance._LINGER_SECONDS", linger)
    feed(stage)
    running = stage.start_all(2)
    assert troubles(http, running[0]) == {None}
    tell_broker(kafka, signal.SIGSTOP)
    try:
        wait_until(lambda: not any(each.instance.owned("n") for each in running), "their partitions lost")
        lost_at = time.monotonic()
        waiting = {f"waiting for Kafka at {kafka.bootstrap_servers}"}
        wait_until(lambda: troubles(http, running[0]) == waiting, "that Kafka is away")
        before = {key: ask(http, running[0], key)["staleness_ms"] for key in KEYS}
        wait_until(lambda: time.monotonic() - lost_at > 3 * linger, "longer than what is given away is kept")
        for key in KEYS:
            for each in running:
                assert ask(http, each, key)["staleness_ms"] > before[key] > 1000
        url = f"{running[0].url}/v1/stores/n/keys/key1"
        refused = http.get(url, params={"max_staleness_ms": 100, "timeout_ms": 500})
        assert refused.status_code == 503 and refused.json()["partitions"][0]["reason"] == "too-stale"
    finally:
        tell_broker(kafka, signal.SIGCONT)
    wait_until(lambda: troubles(http, running[0]) == {None}, "that Kafka is back")
    stage.settle(running)
    stage.pipe(stage.source, [("key3", "x", 9000)])
    for each in running:
        wait_until(partial(has, http, each, "key3", 5), "what is new")
