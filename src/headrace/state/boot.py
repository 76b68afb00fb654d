"""Which boot of the machine this is: files that were written without sync are of no use after another one."""

from __future__ import annotations

import shutil
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_name() -> str:
    """A short name of the machine's current boot."""
    try:
        return _BOOT_ID.read_text().strip()[:8]
    except OSError:
        return "boot"


def remove_earlier_boots(directory: Path) -> None:
    """Removes what is in directories of other boots: some of it may have been lost when the machine went down."""
    current = boot_name()
    for each in directory.iterdir() if directory.is_dir() else ():
        if each.name != current and each.is_dir():
            shutil.rmtree(each, ignore_errors=True)
