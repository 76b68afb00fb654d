"""An instance under more load than it takes: its memory has a ceiling, and others are answered."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.serving.served import Served
from tests.serving.stage import Stage

pytestmark = pytest.mark.acceptance

SUBSCRIBERS = 500
SLOW_CLIENTS = 1_000
WAITING = 250
PAGES = 50
SECONDS = 20.0
FED_BATCHES = 20
CEILING_MB = 400
P99_SECONDS = 0.05


def get(path: str) -> str:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@contextlib.asynccontextmanager
async def crowd(served: Served) -> AsyncIterator[None]:
    """Everybody who asks for much, or for a long time, and reads nothing."""
    asked = [
        *(get("/v1/stores/n/changes") for _ in range(SUBSCRIBERS)),
        *("GET /v1/stores/n/keys?limit=10000 HTTP/1.1\r\nX: " for _ in range(SLOW_CLIENTS)),
        *(get("/v1/stores/n/keys/a?min_position=0:999999999&timeout_ms=60000") for _ in range(WAITING)),
        *(get("/v1/stores/n/keys?limit=10000") for _ in range(PAGES)),
    ]
    open_connections = []
    for request in asked:
        with contextlib.suppress(OSError):
            open_connections.append(await served.connect(request))
    try:
        yield
    finally:
        for _, writer in open_connections:
            writer.transport.abort()


def test_memory_has_a_ceiling_and_others_are_answered(served: tuple[Served, Stage]) -> None:
    instance, stage = served
    quiet = asyncio.run(_measure(instance))
    loaded, most = asyncio.run(_under_load(instance, stage))
    print(f"quiet p99 {quiet * 1000:.1f} ms, loaded p99 {loaded * 1000:.1f} ms, memory {most:.0f} MB at most")
    assert most < CEILING_MB
    assert loaded < P99_SECONDS


async def _under_load(instance: Served, stage: Stage) -> tuple[float, float]:
    """The 99th percentile of other clients' reads meanwhile, and the most memory the instance had."""
    # Clients that were there before, as a pool has them.
    async with httpx.AsyncClient(timeout=30) as client:
        await client.get(f"{instance.url}/v1/stores")
        most = 0.0
        async with crowd(instance):
            feeding = asyncio.create_task(_feed(stage))
            times: list[float] = []
            deadline = time.monotonic() + SECONDS
            while time.monotonic() < deadline:
                times.append(await _read(client, instance))
                most = max(most, instance.megabytes)
                await asyncio.sleep(0.01)
            await feeding
        return _p99(times), most


async def _feed(stage: Stage) -> None:
    """Changes for the subscribers: a megabyte each second."""
    for batch in range(FED_BATCHES):
        keys = [f"new-{batch}-{number}{'y' * 1000}".encode() for number in range(1000)]
        records = [(key, (1).to_bytes(8, "big"), 1) for key in keys]
        await asyncio.to_thread(stage.write, "n", 0, records)
        await asyncio.sleep(SECONDS / FED_BATCHES)


async def _measure(instance: Served) -> float:
    async with httpx.AsyncClient(timeout=30) as client:
        return _p99([await _read(client, instance) for _ in range(200)])


async def _read(client: httpx.AsyncClient, instance: Served) -> float:
    began = time.perf_counter()
    response = await client.get(f"{instance.url}/v1/stores/n/keys", params={"limit": 1})
    assert response.status_code == 200, response.text
    return time.perf_counter() - began


def _p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]
