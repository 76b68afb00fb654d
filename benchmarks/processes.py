"""What a tree of processes uses, from /proc."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Usage:
    """What a tree of processes has used of the CPU so far, and what it holds in memory now."""

    cpu_seconds: float
    rss_bytes: int


def usage(root: int) -> Usage:
    """The usage of a process and all below it; children that ended count where they were waited for."""
    ticks = pages = 0
    stats = _all_stats()
    for pid in _tree(root, stats):
        # user and system time, own and of children that ended; resident pages
        fields = stats[pid]
        ticks += sum(int(field) for field in fields[11:15])
        pages += int(fields[21])
    return Usage(ticks / _TICKS, pages * _PAGE)


def kill_tree(root: int) -> None:
    """Kills a process and all below it, at once."""
    for pid in _tree(root, _all_stats()):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _all_stats() -> dict[int, list[str]]:
    """The fields of /proc/<pid>/stat after the name, by process."""
    stats: dict[int, list[str]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stats[int(entry)] = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
    return stats


def _tree(root: int, stats: dict[int, list[str]]) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        children.setdefault(int(fields[1]), []).append(pid)
    found = [root] if root in stats else []
    for pid in found:
        found.extend(children.get(pid, ()))
    return found
