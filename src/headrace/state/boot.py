"""Which boot of the machine this is: files that were written without sync are of no use after another one."""

from __future__ import annotations

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_name() -> str:
    """A short name of the machine's current boot."""
    try:
        return _BOOT_ID.read_text().strip()[:8]
    except OSError:
        return "boot"
