"""Instances in processes of their own, seen from outside: signals, REST, and what they print."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
_POLL_SECONDS = 0.05
_ANSWER_SECONDS = 10.0
_PATIENCE_SECONDS = 600.0


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, in order."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return sorted(each.getsockname()[1] for each in sockets)


def slowness() -> float:
    """How many times slower than a quiet machine this one may be: the processes that wait for each core."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def wait_until(holds: Callable[[], Any], what: str, seconds: float = _PATIENCE_SECONDS) -> float:
    """Waits for something that other processes bring about; answers how long that took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() < began + seconds, f"not within {seconds:.0f} s: {what}"
        time.sleep(_POLL_SECONDS)
    return time.monotonic() - began


class Process:
    """An instance at a port, which can be started again after its end."""

    def __init__(self, port: int, directory: Path) -> None:
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self.output = directory / f"{port}.txt"
        self.log = directory / f"{port}.log"
        self.client = httpx.Client(base_url=f"http://{self.address}", timeout=_ANSWER_SECONDS)
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return self.address

    # --- life --------------------------------------------------------------------------------------------------

    def start(self, *command: str) -> None:
        """Starts `python …` in a session of its own: a signal can reach it with its JVM and its workers."""
        assert self._process is None or not self.is_running
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
                start_new_session=True,
            )

    @property
    def pid(self) -> int | None:
        """Its process; None where it has never been started."""
        return None if self._process is None else self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Ends it at once, as `kill -9` does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def lose_power(self) -> None:
        """Ends it and all it has started at once."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def freeze(self) -> None:
        """Stops it and all it has started, as a machine does that is suspended."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets it go on."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGCONT)

    def signal(self, number: int) -> None:
        """Sends it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def terminate(self) -> None:
        """Tells it to end."""
        assert self._process is not None
        self._process.terminate()

    def await_end(self, seconds: float = _PATIENCE_SECONDS) -> int:
        """Waits until it has ended; its exit code."""
        assert self._process is not None
        return self._process.wait(seconds)

    def clean_up(self) -> None:
        """Ends whatever is left of it."""
        self.client.close()
        if self._process is not None:
            for number in (signal.SIGCONT, signal.SIGKILL):
                try:
                    os.killpg(self._process.pid, number)
                except ProcessLookupError:
                    break
            self._process.wait()

    # --- what it says ------------------------------------------------------------------------------------------

    def printed(self) -> str:
        """All it has printed."""
        return self.output.read_text()

    def logged(self) -> str:
        """All it has logged."""
        return self.log.read_text() if self.log.exists() else ""

    def ask(self, path: str, **query: Any) -> httpx.Response | None:
        """Its answer; None where it does not answer."""
        try:
            return self.client.get(path, params=query)
        except httpx.TransportError:
            return None

    @property
    def is_ready(self) -> bool:
        """Whether it has restored its partitions. An instance that has ended will not."""
        assert self.is_running, f"{self} has ended:\n{self.printed()[-3000:]}"
        answer = self.ask("/readyz")
        return answer is not None and answer.status_code == 200


class Instances:
    """What several instances say together."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self.processes = processes

    def views(self) -> list[dict[str, Any]]:
        """What each says of all of them; nothing of those that do not answer."""
        answers = [process.ask("/v1/instances") for process in self.processes]
        return [each.json() if each is not None and each.status_code == 200 else {} for each in answers]

    def agree(self, partitions: int, *, with_leader: bool = True) -> bool:
        """Whether they all know of each other, and nobody else, that each runs and owns so many partitions or less."""
        own = {process.address for process in self.processes}
        views = self.views()
        owners = [{each["address"]: each["partitions"] for each in view.get("instances", ())} for view in views]
        if any(each != owners[0] for each in owners) or owners[0].keys() != own:
            return False
        if any(each["state"] != "RUNNING" for view in views for each in view["instances"]):
            return False
        if with_leader and {view["leader"] for view in views} - own:
            return False
        shares = [owned.get("balances", []) for owned in owners[0].values()]
        return sorted(chain.from_iterable(shares)) == [0, 1, 2] and max(map(len, shares)) <= partitions

    def leader(self) -> Process | None:
        """The one that all of them call the leader."""
        leaders = {view.get("leader") for view in self.views()}
        found = next(iter(leaders)) if len(leaders) == 1 else None
        return next((process for process in self.processes if process.address == found), None)

    def balances(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        """What each says of every key: the balance, or the status where it does not tell it."""
        return [{key: balance_of(process, key) for key in keys} for process in self.processes]


def balance_of(process: Process, key: str) -> Any:
    """The balance an instance answers with; the status where it does not tell it, None where it does not answer."""
    answer = process.ask(f"/v1/stores/balances/keys/{key}")
    if answer is None:
        return None
    return answer.json()["value"] if answer.status_code == 200 else f"status {answer.status_code}"
