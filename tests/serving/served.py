"""An instance in a process of its own, with a store of many large keys."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.serving.stage import Stage

KEYS = 2_000
KEY_BYTES = 10_000


@dataclass
class Served:
    """The instance, seen from outside."""

    process: subprocess.Popen[str]
    address: str

    @property
    def megabytes(self) -> float:
        """The memory that it has."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    async def connect(self, request: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection on which something was asked, or begun to be."""
        host, _, port = self.address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        writer.write(request.encode())
        return reader, writer


@contextmanager
def serving(stage: Stage) -> Iterator[Served]:
    """The instance, once it is ready."""
    keys = (f"{number:06}{'x' * KEY_BYTES}".encode() for number in range(KEYS))
    stage.write("n", 0, [(key, (1).to_bytes(8, "big"), 1) for key in keys])
    settings = {
        "servers": stage.settings.bootstrap_servers,
        "application_id": stage.config.application_id,
        "state_dir": str(stage.directory / "served"),
        "topic": stage.source,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.serving.served_process", json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        served = Served(process, process.stdout.readline().strip())
        with httpx.Client(timeout=5) as client:
            deadline = time.monotonic() + 60
            while client.get(f"{served.url}/readyz").status_code != 200:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield served
    finally:
        process.communicate(timeout=30)
