"""What other users of a machine, and of its network, see of processes."""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

_LISTENS = "0A"


def with_descendants(pid: int) -> list[int]:
    """A process and all below it."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def listening(processes: Iterable[int]) -> set[str]:
    """The addresses that the processes listen on."""
    sockets = {target for pid in processes for target in _descriptors(pid) if target.startswith("socket:")}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in sockets:
                found.add(_address(fields[1].partition(":")[0]))
    return found


def command_lines(processes: Iterable[int]) -> str:
    """What every user can read of the processes' commands."""
    return "\n".join(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in processes)


def readable_by_others(directory: Path) -> list[Path]:
    """The files and directories below one that somebody else than their owner may read, write or enter."""
    everything = [Path(above, name) for above, below, files in os.walk(directory) for name in (*below, *files)]
    return [
        path
        for path in everything
        if not path.is_symlink() and path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]


def _descriptors(pid: int) -> Iterator[str]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            yield os.readlink(descriptor)
        except OSError:
            continue


def _address(text: str) -> str:
    """An address as the kernel prints it: words of four bytes, each in the machine's order."""
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    packed = b"".join(words)
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    address = ipaddress.ip_address(socket.inet_ntop(family, packed))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
