"""Processes that use the embedded Kafka, and waiting for what happens to it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.home import Endpoint, Home

_PROGRAM = """
import sys
from pathlib import Path
from headrace.kafka.embedded import EmbeddedKafka
with EmbeddedKafka(Path(sys.argv[1]), port=0) as kafka:
    print(kafka.bootstrap_servers, flush=True)
    sys.stdin.read()
"""

T = TypeVar("T")


class User:
    """A process that uses the embedded Kafka until it is told to leave, or killed."""

    def __init__(self, state_dir: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(state_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def bootstrap_servers(self) -> str:
        """What the process was told, once its broker answers."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        self.process.communicate(timeout=300)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=300)


def eventually(what: Callable[[], T | None], timeout: float = 300.0) -> T:
    """The first result that is neither None nor False."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        result = what()
        if result is not None and result is not False:
            return result
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    except OSError:
        os.kill(pid, 0)
        return True
    return state != "Z"


def endpoint_of(where: Path | EmbeddedKafka) -> Endpoint | None:
    """The endpoint of a broker that answers."""
    state_dir = where.state_dir if isinstance(where, EmbeddedKafka) else where
    found = Home.of(state_dir).read_endpoint()
    return found if found is not None and found.ready else None


def running_broker(state_dir: Path) -> tuple[int, int]:
    """The processes of keeper and broker."""
    found = eventually(lambda: endpoint_of(state_dir))
    assert found.broker is not None
    return found.keeper, found.broker
