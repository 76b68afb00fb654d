"""What a machine that has lost its power leaves on its disk."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from headrace.state.boot import boot_name

_EARLIER_BOOT = "00000000"
_PAGE_BYTES = 4096
_LOST_SHARE = 0.3


def lose_power(directory: Path, chance: random.Random) -> list[Path]:
    """Makes what was written below a directory since the machine has booted what it is after the next boot.

    Pages that were never synced are missing, and the files are an earlier boot's; in which directories those are.
    """
    return [_end_boot(each, chance) for each in list(directory.rglob(boot_name())) if each.is_dir()]


def _end_boot(files: Path, chance: random.Random) -> Path:
    for path in files.rglob("data.mdb"):
        _tear(path, chance)
    earlier = files.with_name(_EARLIER_BOOT)
    shutil.rmtree(earlier, ignore_errors=True)
    return files.rename(earlier)


def _tear(path: Path, chance: random.Random) -> None:
    with path.open("r+b") as file:
        for page in range(path.stat().st_size // _PAGE_BYTES):
            if chance.random() < _LOST_SHARE:
                file.seek(page * _PAGE_BYTES)
                file.write(bytes(_PAGE_BYTES))
