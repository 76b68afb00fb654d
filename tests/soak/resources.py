"""What the processes of an application take of the machine, as time goes by."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.histories.shop import Shop

_LOOK_SECONDS = 5.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_WARM_SECONDS = 300.0
"""How long a process may take until it has all that it needs."""
_LONG_SECONDS = 900.0
"""From what age on a process must not have grown."""
_GROWTH = 1.25
_GROWTH_MB = 40.0
_DISK_MB = 200.0


@dataclass
class Life:
    """The memory of one process, in megabytes, by its age in seconds."""

    name: str
    memory: list[tuple[float, float]] = field(default_factory=list)

    @property
    def growth(self) -> tuple[float, float] | None:
        """What it had when it was warm, and in the end; None where it did not live long."""
        warm = [size for age, size in self.memory if age >= _WARM_SECONDS]
        if self.memory[-1][0] < _LONG_SECONDS:
            return None
        few = max(1, len(warm) // 5)
        return _median(warm[:few]), _median(warm[-few:])


class Resources:
    """Looks at memory and disk again and again."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._began = time.monotonic()
        self._lives: dict[tuple[int, float], Life] = {}
        self.disk: list[float] = []
        """What the state of all instances and their logs take, in megabytes."""
        self.most = 0.0
        """The most memory that all processes had together, in megabytes."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Looks meanwhile."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_LOOK_SECONDS):
                self._look()

        thread = threading.Thread(target=watch, name="resources", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def long_lives(self) -> list[tuple[str, float, float]]:
        """Of each process that lived long: its name, its memory when it was warm, and in the end."""
        return [(life.name, *growth) for life in self._lives.values() if (growth := life.growth) is not None]

    def problems(self) -> list[str]:
        """What has grown that should not."""
        found = [
            f"{name} grew from {warm:.0f} to {last:.0f} MB"
            for name, warm, last in self.long_lives()
            if last > max(warm * _GROWTH, warm + _GROWTH_MB)
        ]
        if len(self.disk) > 1 and self.disk[-1] > self.disk[len(self.disk) // 4] + _DISK_MB:
            found.append(f"files grew from {self.disk[len(self.disk) // 4]:.0f} to {self.disk[-1]:.0f} MB")
        return found

    def _look(self) -> None:
        total = 0.0
        children = _children()
        for process in self._shop.processes:
            pid = process.pid
            for each in () if pid is None else _with_descendants(pid, children):
                seen = _memory(each)
                if seen is None:
                    continue
                started, name, size = seen
                total += size
                life = self._lives.setdefault((each, started), Life(f"{name} of {process}"))
                life.memory.append((time.clock_gettime(time.CLOCK_BOOTTIME) - started, size))
        self.most = max(self.most, total)
        logs = (path for each in self._shop.processes for path in (each.log, each.output))
        self.disk.append((_size(self._shop.state_dir.rglob("*")) + _size(logs)) / 1e6)


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and (stat := _stat(int(each.name))) is not None:
            found[int(stat[1])].append(int(each.name))
    return found


def _with_descendants(pid: int, children: dict[int, list[int]]) -> Iterator[int]:
    yield pid
    for child in children[pid]:
        yield from _with_descendants(child, children)


def _memory(pid: int) -> tuple[float, str, float] | None:
    """When a process was started, in seconds since the boot, its name, and its memory in megabytes."""
    stat = _stat(pid)
    if stat is None:
        return None
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return None
    return int(stat[19]) / os.sysconf("SC_CLK_TCK"), name, int(stat[21]) * _PAGE_BYTES / 1e6


def _stat(pid: int) -> list[str] | None:
    """The fields of a process from its state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _size(paths: Iterable[Path]) -> float:
    """What files take on the disk, in bytes: those of LMDB have holes."""
    total = 0
    for path in paths:
        try:
            total += path.stat().st_blocks * 512
        except OSError:
            continue
    return total


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
